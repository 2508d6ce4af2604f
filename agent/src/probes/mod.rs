//! The families of probes: which hooks each one has, what they are for, and which program goes there.
//!
//! One file per family, named as on the kernel side. A family is a table; the loader does the work. It knows no
//! records and no meaning of them.

pub mod attach;
pub mod block;
pub mod cpu;
pub mod net;
pub mod phase;
pub mod sched;
pub mod throttle;

/// Where a program goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A tracepoint of this name, by its BTF.
    BtfTracepoint(&'static str),
    /// Nowhere: a task runs it on itself.
    Called,
    /// All tasks, one after the other, whenever the agent reads them.
    Iterator,
    /// The clock of each observed program, attached when it is started.
    Sampler,
    /// The probe point of each file that carries the marker library, attached when such a file is met.
    Marker,
}

/// A hook that a family wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// As in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
    /// Where it goes.
    pub place: Place,
    /// What it tells; without it, what is missing.
    pub purpose: &'static str,
    /// Without it the accounts would be wrong; else they are coarser, and the hook says so.
    pub is_needed: bool,
}

/// Every family's hooks, in the order in which they are attached: births before switches, so that no thread of the
/// child can be missed.
pub const FAMILIES: &[&[Hook]] =
    &[throttle::HOOKS, sched::HOOKS, attach::HOOKS, block::HOOKS, net::HOOKS, cpu::HOOKS, phase::HOOKS];
