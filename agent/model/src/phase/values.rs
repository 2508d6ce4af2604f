//! What pairing yields about phases, requests, threads and marks, as plain data.

use guestscope_contract::{Source, metrics::Counts};

use super::{accounts::Accounts, helped::Helpers, thread_id::ThreadId};
use crate::untrusted::Untrusted;

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PhaseKind {
    /// An outermost phase: one trace.
    Request,
    /// Inside a request.
    Phase,
    /// From the scheduled arrival to the start of the request. On no thread, so without accounts.
    Queue,
    /// A whole process, its main thread's ledger.
    Process,
}

impl PhaseKind {
    /// The word in columns and attributes.
    pub const fn name(self) -> &'static str {
        match self {
            PhaseKind::Request => "request",
            PhaseKind::Phase => "phase",
            PhaseKind::Queue => "queue",
            PhaseKind::Process => "process",
        }
    }
}

/// How a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    /// The program said so.
    Ended,
    /// Its thread exited inside it.
    ThreadExited,
    /// Its process called exec inside it.
    Exec,
    /// Its end was lost: closed when the next edge of the thread, or of the phase around it, proved that.
    Lost,
    /// Observation stopped inside it.
    ObservationStopped,
}

impl Ending {
    /// The word in columns and attributes.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Ended => "ended",
            Ending::ThreadExited => "thread_exited",
            Ending::Exec => "exec",
            Ending::Lost => "lost",
            Ending::ObservationStopped => "observation_stopped",
        }
    }

    /// The ending of this name. The chain names every variant, or it does not compile.
    pub fn by_name(word: &str) -> Option<Self> {
        let next = |ending: &Ending| match ending {
            Ending::Ended => Some(Ending::ThreadExited),
            Ending::ThreadExited => Some(Ending::Exec),
            Ending::Exec => Some(Ending::Lost),
            Ending::Lost => Some(Ending::ObservationStopped),
            Ending::ObservationStopped => None,
        };
        std::iter::successors(Some(Ending::Ended), next).find(|ending| ending.name() == word)
    }
}

/// Position of a phase in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceIds {
    /// Trace id of the request.
    pub trace_id: [u8; 16],
    /// Span id of the phase.
    pub span_id: [u8; 8],
    /// Span id of the phase around it, or of the program's own span that the request joined.
    pub parent_span_id: Option<[u8; 8]>,
    /// The parent belongs to the program's own trace.
    pub parent_is_remote: bool,
}

/// A finished phase. `accounts.total_ns() + suspended_ns == duration_ns`, to the nanosecond, except that a
/// queue has no accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Unique in the run, from 1.
    pub id: u64,
    /// The phase around it.
    pub parent: Option<u64>,
    /// The `id` of its request.
    pub root: u64,
    /// Kind of the row.
    pub kind: PhaseKind,
    /// Name that the program gave it; cut at [`guestscope_contract::NAME_BYTES`], with invalid UTF-8
    /// replaced.
    pub name: Untrusted,
    /// The name was cut, unreadable or repaired.
    pub name_damaged: bool,
    /// The number that the program gave to the request.
    pub request: u64,
    /// The thread that began it.
    pub thread: ThreadId,
    /// Name that this thread had when the phase began; empty if it is not known.
    pub comm: Untrusted,
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Start to end, ns.
    pub duration_ns: u64,
    /// Time on no thread, between leave and enter, ns.
    pub suspended_ns: u64,
    /// Time on threads, by account.
    pub accounts: Accounts,
    /// Events on the way.
    pub counts: Counts,
    /// Time for which the whole guest was paused during the phase, ns; the accounts include it.
    pub pause_ns: u64,
    /// Activity of other threads of the process during the phase.
    pub helpers: Helpers,
    /// Position in the trace.
    pub trace: TraceIds,
    /// How it ended.
    pub ending: Ending,
    /// Edges of its threads were lost inside it: nested phases may be missing.
    pub edges_lost: u64,
    /// Source that reported its start.
    pub source: Source,
    /// Status by the number of its protocol (HTTP, gRPC); none for a phase without one.
    pub status: Option<u32>,
    /// What its thread did for the longest time while the phase was suspended.
    pub holder: Option<Box<Holder>>,
}

/// What a thread did while a phase was suspended that continued on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Number that the program gave to the request of that phase; 0 if it gave none, and outside of phases.
    pub request: u64,
    /// Name of the phase; none for code outside of phases.
    pub phase: Option<Untrusted>,
    /// Its time on the thread meanwhile, ns.
    pub ns: u64,
}

/// An outermost phase with everything inside it: one trace. `phases[0]` is the outermost one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The outermost first, then in the order of their starts.
    pub phases: Vec<Phase>,
}

impl Request {
    /// The outermost phase.
    pub fn root(&self) -> &Phase {
        &self.phases[0]
    }

    /// A root of this name is kept, and left out of statistics.
    pub fn is_warmup(&self) -> bool {
        self.root().name == WARMUP
    }
}

/// The name by which a program marks requests that statistics leave out.
pub const WARMUP: &str = "warmup";

/// A thread that ended, or was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Identity of the thread.
    pub id: ThreadId,
    /// Thread name at its end.
    pub comm: Untrusted,
    /// CLOCK_MONOTONIC, ns: the end of tracking.
    pub end_ns: u64,
    /// The whole ledger.
    pub accounts: Accounts,
    /// The part of `accounts` inside marked phases, of any thread.
    pub inside: Accounts,
    /// Its events.
    pub counts: Counts,
    /// Marked phases that it began.
    pub phases: u64,
    /// Whether it ended by itself; otherwise the observation stopped before.
    pub exited: bool,
}

/// A point in time that the program marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The thread.
    pub thread: ThreadId,
    /// The name, as for a phase.
    pub name: Untrusted,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The innermost phase there.
    pub phase: Option<u64>,
}

/// Counts of what could not be paired. All zero means that every edge found its partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairingLosses {
    /// Edge numbers that never arrived, after the first one of each thread that was seen.
    pub edges_lost: u64,
    /// Edges before the agent's probe was in place.
    pub edges_before: u64,
    /// Edges that end, leave or enter a phase whose start was never seen.
    pub unmatched_ends: u64,
    /// Phases whose own end was never seen.
    pub unended_phases: u64,
    /// Names that were cut, unreadable or no UTF-8.
    pub damaged_names: u64,
    /// Edges with an unknown operation or ABI.
    pub unknown_edges: u64,
    /// Edges whose ledger was torn.
    pub torn_edges: u64,
    /// I/Os that completed after their request was over: no phase has their time.
    pub late_ios: u64,
    /// Phases beyond the limits of a request or of nesting: their time is that of the phase around them.
    pub phases_left_out: u64,
    /// Requests that were the oldest of too many open ones: they were cut off there.
    pub requests_cut: u64,
    /// Long waits from before edges that had not come, too many to keep until they did.
    pub waits_unplaced: u64,
    /// Phases whose name was one of too many of their source.
    pub names_left_out: u64,
}
