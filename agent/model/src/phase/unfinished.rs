//! Values for requests that are open, or did not end by themselves: in which phase they are, what its thread
//! does, and who is alive to wake it.

use guestscope_contract::{Account, ledger::Ledger};

use super::{stopper::Stopper, table::Table, thread_id::ThreadId};
use crate::untrusted::Untrusted;

/// Most requests of each kind that are kept: the longest.
pub const UNFINISHED: usize = 16;

/// What became of a request without an end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is open.
    Open,
    /// It was open when the observation stopped.
    Stopped,
    /// The thread that it was on ended.
    ThreadEnded,
    /// Its process ended.
    ProcessEnded,
    /// Its process executed another program.
    Replaced,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 5] =
        [Fate::Open, Fate::Stopped, Fate::ThreadEnded, Fate::ProcessEnded, Fate::Replaced];

    /// The word in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Open => "open",
            Fate::Stopped => "stopped",
            Fate::ThreadEnded => "thread_ended",
            Fate::ProcessEnded => "process_ended",
            Fate::Replaced => "replaced",
        }
    }

    /// Whether the request was open until the last look.
    pub const fn is_open(self) -> bool {
        matches!(self, Fate::Open | Fate::Stopped)
    }
}

/// What the thread of an open phase does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// It is not known.
    #[default]
    Unknown,
    /// The phase has left its thread and continued on no other.
    Suspended {
        /// CLOCK_MONOTONIC, ns.
        since_ns: u64,
    },
    /// It is on a CPU.
    Runs,
    /// It could run and has no CPU.
    Queued {
        /// CLOCK_MONOTONIC, ns.
        since_ns: u64,
    },
    /// It waits.
    Waits(OpenWait),
}

/// A wait that has not ended, or that ended with its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    /// Account of the wait.
    pub account: Account,
    /// Its system call, as in [`super::Wait::syscall`].
    pub syscall: Option<u32>,
    /// What keeps it from running, if anything does: it waits for nothing else.
    pub stopped_by: Option<Stopper>,
    /// CLOCK_MONOTONIC, ns.
    pub since_ns: u64,
    /// The file, pipe or socket that it waits for, where that is known.
    pub object: Option<Untrusted>,
    /// Whether only threads of its process can end it: it has no time limit, and its lock is of this process
    /// alone. None where that is not known.
    pub is_private: Option<bool>,
}

/// Other threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Those alive.
    pub alive: u32,
    /// Those of them that wait for locks.
    pub locked: u32,
    /// The process that this one was forked from, where that was seen and it has not called exec since.
    pub forked_from: Option<u32>,
}

/// A request that is open, or did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The `id` of its outermost phase.
    pub id: u64,
    /// Name of the outermost phase.
    pub name: Untrusted,
    /// The number that the program gave it.
    pub request: u64,
    /// The thread of the innermost phase.
    pub thread: ThreadId,
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// When it was last seen open, or ended.
    pub until_ns: u64,
    /// Names of the open phases from under the request, at most the eight innermost.
    pub path: Vec<Untrusted>,
    /// Start of the innermost.
    pub phase_start_ns: u64,
    /// What became of it.
    pub fate: Fate,
    /// What the thread does, or did last.
    pub doing: Doing,
    /// The other threads of its process, at the last look.
    pub others: Option<Others>,
}

impl Unfinished {
    /// Time for which it was seen open, ns.
    pub fn age_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.start_ns)
    }
}

/// All requests without an end of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllUnfinished {
    /// Number of those that are open.
    pub open: u64,
    /// Number of those that did not end by themselves.
    pub ended: u64,
    /// The longest of both, at most [`UNFINISHED`] of each, the open ones first.
    pub requests: Vec<Unfinished>,
}

/// What /proc tells of a waiting thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The thread.
    pub thread: ThreadId,
    /// Start of the wait.
    pub since_ns: u64,
    /// See [`OpenWait::object`].
    pub object: Option<Untrusted>,
    /// See [`OpenWait::is_private`].
    pub is_private: Option<bool>,
    /// Other threads of its process.
    pub others: Option<u32>,
}

/// The last wait of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWait {
    pub(crate) account: u8,
    pub(crate) syscall: u16,
    pub(crate) stopped_by: Option<Stopper>,
    pub(crate) since_ns: u64,
    pub(crate) until_ns: u64,
}

/// What is kept of requests until they end, and of those that did not.
#[derive(Debug, Default)]
pub(crate) struct Unended {
    /// The open ones at the last look.
    pub(crate) seen: Table<u64, Unfinished>,
    /// Those at the look before.
    pub(crate) seen_before: Table<u64, Unfinished>,
    pub(crate) looked: Vec<Looked>,
    /// Number of those that did not end by themselves.
    pub(crate) count: u64,
    /// The longest of them, longest first.
    pub(crate) ended: Vec<Unfinished>,
    /// Those that were open when the observation stopped.
    pub(crate) stopped: Option<(u64, Vec<Unfinished>)>,
}

/// Reads the ledger of a thread in its slot; none where there is none, or its state means nothing.
pub type ReadLedger<'a> = &'a dyn Fn(ThreadId, u16) -> Option<Ledger>;
