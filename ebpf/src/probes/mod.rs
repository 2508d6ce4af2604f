//! The families of probes: one file each.

mod attach;
mod block;
mod classic;
pub(crate) mod cpu;
mod net;
pub(crate) mod pause;
mod phase;
pub(crate) mod sched;
pub(crate) mod throttle;
