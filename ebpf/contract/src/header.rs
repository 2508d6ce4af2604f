//! What all records begin with.

/// Bytes of a task's `comm`.
pub const COMM_BYTES: usize = 16;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A marker fired: [`EdgeRecord`](crate::EdgeRecord).
    Edge = 1,
    /// A task was born of a tracked one, or adopted: [`TaskRecord`](crate::TaskRecord).
    Fork = 2,
    /// A tracked task replaced its program: [`TaskRecord`](crate::TaskRecord).
    Exec = 3,
    /// A tracked task left a CPU for the last time: [`TaskRecord`](crate::TaskRecord).
    Exit = 4,
    /// A tracked task was off the CPU for long: [`WaitRecord`](crate::WaitRecord).
    Wait = 5,
    /// An I/O of a tracked task is done: [`IoRecord`](crate::IoRecord).
    Io = 6,
    /// Who used the CPU for which a tracked task was queued: [`QueueRecord`](crate::QueueRecord).
    Queue = 7,
    /// A tracked task gets another name: [`TaskRecord`](crate::TaskRecord).
    Rename = 8,
}

impl Kind {
    /// The kind with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Kind> {
        match number {
            1 => Some(Kind::Edge),
            2 => Some(Kind::Fork),
            3 => Some(Kind::Exec),
            4 => Some(Kind::Exit),
            5 => Some(Kind::Wait),
            6 => Some(Kind::Io),
            7 => Some(Kind::Queue),
            8 => Some(Kind::Rename),
            _ => None,
        }
    }
}

/// Header of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// A [`Kind`].
    pub kind: u32,
    /// Flags of that kind.
    pub flags: u32,
    /// CLOCK_MONOTONIC, in ns.
    pub time_ns: u64,
}
