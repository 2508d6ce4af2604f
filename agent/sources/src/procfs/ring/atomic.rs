//! The processor's atomics, in whose place tests put loom's.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
