//! Evidence for what the guest is.

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The question that it speaks to.
    pub about: About,
    /// A path below the root, or the name of an instruction.
    pub source: String,
    /// Its content, and whether it counted.
    pub says: String,
}

/// A question that evidence speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Bare metal, virtual machine or microVM.
    Machine,
    /// Container or not.
    Container,
    /// How many CPUs may be used.
    Cores,
    /// Limits of control groups other than a quota of CPU time, which belongs to the cores.
    Limits,
}

impl About {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            About::Machine => "machine",
            About::Container => "container",
            About::Cores => "cores",
            About::Limits => "limits",
        }
    }
}

/// Evidence during collection.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) Vec<Evidence>);

impl Notes {
    pub(super) fn add(&mut self, about: About, source: impl Into<String>, says: impl Into<String>) {
        self.0.push(Evidence { about, source: source.into(), says: says.into() });
    }
}
