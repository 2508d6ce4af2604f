//! The contract of the task iterator: its report on each visited task that concerns the agent.

/// Most processes that can be requested at once: as many as there can be slots.
pub const TARGETS_MOST: u32 = 1 << 16;

/// Result of a visit to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Found {
    /// The thread already had a ledger.
    Tracked = 0,
    /// The thread has got a ledger now.
    Adopted = 1,
    /// The thread is still being created: its creator passes its ledger on, or the next visit finds it.
    Unborn = 2,
    /// There was no free slot for it.
    Missed = 3,
}

impl Found {
    /// The result with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Found> {
        match number {
            0 => Some(Found::Tracked),
            1 => Some(Found::Adopted),
            2 => Some(Found::Unborn),
            3 => Some(Found::Missed),
            _ => None,
        }
    }
}

/// What the task iterator writes for a thread that is tracked or should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Visit {
    /// Number of its process in the PID namespace of the iterator's reader.
    pub process: u32,
    /// A [`Found`].
    pub found: u32,
}

const _: () = assert!(size_of::<Visit>() == 8);
