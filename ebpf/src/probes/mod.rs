//! The families of probes: one file each.

mod attach;
pub(crate) mod cpu;
mod phase;
pub(crate) mod sched;
pub(crate) mod throttle;
