//! The families of probes: which hooks each one has, what they are for, and which program goes there.
//!
//! One file per family, named as on the kernel side. A family is a table; the loader does the work. It knows no
//! records and no meaning of them.

pub mod attach;
pub mod block;
pub mod cpu;
pub mod net;
pub mod pause;
pub mod phase;
pub mod sched;
pub mod socket;
pub mod throttle;

/// Where a program goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A tracepoint of this name, by its BTF.
    BtfTracepoint(&'static str),
    /// The same, by its name alone: what it hands over has no types.
    RawTracepoint(&'static str),
    /// A tracepoint of this category and name, whose event is read by its format.
    Tracepoint(&'static str, &'static str),
    /// Nowhere: a task runs it on itself.
    Called,
    /// All tasks, one after the other, whenever the agent reads them.
    Iterator,
    /// The clock of the thread that starts the program, which inherits it; those of the threads that are attached to; or of all CPUs.
    Sampler,
    /// A clock on each CPU.
    EachCpu,
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
    /// For a tracepoint: the same for kernels that have no BTF.
    pub twin: Option<Twin>,
    /// The same as far as it goes without any BTF.
    pub classic: Option<Classic>,
}

/// A program with the body of another one, which needs no BTF of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// As in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
}

/// A program that tells what a tracepoint's event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    /// As in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
    /// The tracepoint's category.
    pub category: &'static str,
    /// Its name there.
    pub name: &'static str,
}

impl Hook {
    /// The same hook by its event, if it has one that tells enough.
    pub const fn by_event(&self) -> Option<Hook> {
        match self.classic {
            Some(Classic { id, program, category, name }) => {
                let place = Place::Tracepoint(category, name);
                Some(Hook { id, program, place, twin: None, classic: None, ..*self })
            }
            None => None,
        }
    }

    /// The same hook without types, if it is a tracepoint.
    pub const fn raw(&self) -> Option<Hook> {
        match (self.place, self.twin) {
            (Place::BtfTracepoint(name), Some(Twin { id, program })) => Some(Hook {
                id,
                program,
                place: Place::RawTracepoint(name),
                twin: None,
                classic: None,
                ..*self
            }),
            _ => None,
        }
    }
}

/// A tracepoint's hook, with its twin.
macro_rules! tracepoint {
    ($name:literal, $purpose:literal, needed: $is_needed:literal) => {
        crate::probes::tracepoint!($name, $purpose, needed: $is_needed, None)
    };
    ($name:literal, $purpose:literal, needed: $is_needed:literal, by: $category:literal / $event:literal) => {
        crate::probes::tracepoint!($name, $purpose, needed: $is_needed, Some(crate::probes::Classic {
            id: concat!("tracepoint/", $category, "/", $event),
            program: concat!("tp_", $event),
            category: $category,
            name: $event,
        }))
    };
    ($name:literal, $purpose:literal, needed: $is_needed:literal, $classic:expr) => {
        crate::probes::Hook {
            id: concat!("tp_btf/", $name),
            program: $name,
            place: crate::probes::Place::BtfTracepoint($name),
            purpose: $purpose,
            is_needed: $is_needed,
            twin: Some(crate::probes::Twin {
                id: concat!("raw_tp/", $name),
                program: concat!("raw_", $name),
            }),
            classic: $classic,
        }
    };
}
use tracepoint;

/// Every family's hooks, in the order in which they are attached: births before switches, so that no thread of the
/// child can be missed.
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
];
