//! The families of probes: one file each.

mod phase;
mod sched;
mod throttle;
