//! The families of probes: their hooks, the purpose of each, and its program.
//!
//! One file per family, named as on the kernel side. A family is a table; the loader does the work. Records
//! are handled elsewhere.

pub mod attach;
pub mod block;
pub mod cpu;
pub mod driver;
mod hook;
pub mod net;
pub mod pause;
pub mod phase;
pub mod sched;
pub mod socket;
pub mod throttle;

pub use self::hook::{Classic, Hook, Place, Twin};

/// Every family's hooks, in the order of attaching: births before switches, so that no thread of the child
/// can be missed.
pub const FAMILIES: &[&[Hook]] = &[
    throttle::HOOKS,
    sched::HOOKS,
    attach::HOOKS,
    block::HOOKS,
    net::HOOKS,
    socket::HOOKS,
    cpu::HOOKS,
    pause::HOOKS,
    phase::HOOKS,
    driver::HOOKS,
];
