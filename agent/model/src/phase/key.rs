//! How a program names its phases.

/// A program's key of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PhaseKey {
    /// Its process.
    pub(crate) tgid: u32,
    /// The copy of the library in the process.
    pub(crate) instance: u16,
    pub(crate) token: u64,
}
