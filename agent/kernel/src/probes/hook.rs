//! What a hook is: its place, its purpose, and its twins for kernels without BTF.

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A tracepoint of this name, by its BTF.
    BtfTracepoint(&'static str),
    /// The same, by its name alone: its arguments have no types.
    RawTracepoint(&'static str),
    /// A tracepoint of this category and name, whose event is read by its format.
    Tracepoint(&'static str, &'static str),
    /// Nowhere: a task runs it on itself.
    Called,
    /// All tasks in turn, at each read by the agent.
    Iterator,
    /// The clock of the thread that starts the program, which inherits it; those of the attached threads; or
    /// those of all CPUs.
    Sampler,
    /// A clock on each CPU.
    EachCpu,
    /// The probe point of each file that carries the marker library, attached when such a file is met.
    Marker,
    /// Entries and returns of functions of a library, attached when such a library is met.
    Function,
}

/// A hook that a family wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Name in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
    /// Where it is attached.
    pub place: Place,
    /// What it shows; or, if it is not attached, what is missing.
    pub purpose: &'static str,
    /// Whether the accounts are wrong without it. If false, they are only coarser, and the hook reports it.
    pub is_needed: bool,
    /// For a tracepoint: the twin for kernels without BTF.
    pub twin: Option<Twin>,
    /// A partial substitute without any BTF.
    pub classic: Option<Classic>,
}

/// A program with the body of another one that needs no BTF of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Name in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
}

/// A program that reads a tracepoint's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    /// Name in KERNELS.md and in reports.
    pub id: &'static str,
    /// The program's name in the object.
    pub program: &'static str,
    /// The tracepoint's category.
    pub category: &'static str,
    /// The tracepoint's name in that category.
    pub name: &'static str,
}

impl Hook {
    /// The same hook by its event, if it has a sufficient one.
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
        crate::probes::hook::tracepoint!($name, $purpose, needed: $is_needed, None)
    };
    ($name:literal, $purpose:literal, needed: $is_needed:literal, by: $category:literal / $event:literal) => {
        crate::probes::hook::tracepoint!($name, $purpose, needed: $is_needed, Some(crate::probes::hook::Classic {
            id: concat!("tracepoint/", $category, "/", $event),
            program: concat!("tp_", $event),
            category: $category,
            name: $event,
        }))
    };
    ($name:literal, $purpose:literal, needed: $is_needed:literal, $classic:expr) => {
        crate::probes::hook::Hook {
            id: concat!("tp_btf/", $name),
            program: $name,
            place: crate::probes::hook::Place::BtfTracepoint($name),
            purpose: $purpose,
            is_needed: $is_needed,
            twin: Some(crate::probes::hook::Twin {
                id: concat!("raw_tp/", $name),
                program: concat!("raw_", $name),
            }),
            classic: $classic,
        }
    };
}
pub(super) use tracepoint;
