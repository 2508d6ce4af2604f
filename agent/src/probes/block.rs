//! Table: the hooks of family `block`, which count what threads ask of block devices.

use super::{Hook, tracepoint};

/// The time is charged without it.
pub const HOOKS: &[Hook] = &[
    tracepoint!("block_bio_queue", "reads from and writes to block devices, with their bytes", needed: false),
];
