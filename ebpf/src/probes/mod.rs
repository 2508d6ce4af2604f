//! The families of probes: one file each.

pub(crate) mod cpu;
mod phase;
mod sched;
pub(crate) mod throttle;
