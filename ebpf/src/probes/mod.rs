//! The families of probes: one file each.

mod attach;
pub(crate) mod block;
mod classic;
pub(crate) mod cpu;
pub(crate) mod driver;
pub(crate) mod function;
pub(crate) mod function_calls;
pub(crate) mod goroutine;
pub(crate) mod net;
pub(crate) mod pause;
pub(crate) mod phase;
pub(crate) mod sched;
pub(crate) mod socket;
pub(crate) mod throttle;
