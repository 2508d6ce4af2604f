//! What keeps a thread from running until somebody lets it go on.

use guestscope_contract::{WAIT_FROZEN, WAIT_STOPPED, WAIT_TRACED};

/// What can keep a thread from running until somebody lets it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopper {
    /// SIGSTOP, or one of the signals of job control.
    Signal,
    /// A debugger or tracer.
    Debugger,
    /// The freezer of control groups.
    Freezer,
}

impl Stopper {
    /// All of them.
    pub const ALL: [Stopper; 3] = [Stopper::Signal, Stopper::Debugger, Stopper::Freezer];

    /// The word in columns, attributes and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Stopper::Signal => "signal",
            Stopper::Debugger => "debugger",
            Stopper::Freezer => "freezer",
        }
    }

    /// The one of this name.
    pub fn named(word: &str) -> Option<Stopper> {
        Self::ALL.into_iter().find(|by| by.name() == word)
    }

    /// By the flags of a wait's record.
    pub(super) const fn of(flags: u32) -> Option<Stopper> {
        match flags & (WAIT_STOPPED | WAIT_TRACED | WAIT_FROZEN) {
            WAIT_STOPPED => Some(Stopper::Signal),
            WAIT_TRACED => Some(Stopper::Debugger),
            WAIT_FROZEN => Some(Stopper::Freezer),
            _ => None,
        }
    }
}
