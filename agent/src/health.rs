//! What the agent says about itself: hooks, losses, its own cost. Plain counters that every stage may add to.
//!
//! It stands in every report, so that what was not seen is said. It calls no stage and decides nothing.

pub mod losses;

use std::time::Duration;

use crate::{phase::PairingLosses, sources::Report};

/// How much can be seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Kernel BTF: the whole ledger.
    Full,
    /// BTF from a file: the whole ledger too, by raw tracepoints. What runs already cannot be attached to.
    Raw,
    /// No BTF at all: by the events of classic tracepoints, `cpu`, `runq` and the rest.
    Tracepoint,
    /// No BPF here: phases as threads tell them, with what the kernel tells any thread of itself.
    Procfs,
    /// Nothing can be observed.
    None,
}

impl Fidelity {
    /// From the most to the least.
    pub const ALL: [Fidelity; 5] =
        [Fidelity::Full, Fidelity::Raw, Fidelity::Tracepoint, Fidelity::Procfs, Fidelity::None];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Fidelity::Full => "full",
            Fidelity::Raw => "raw",
            Fidelity::Tracepoint => "tracepoint",
            Fidelity::Procfs => "procfs",
            Fidelity::None => "none",
        }
    }
}

impl Fidelity {
    /// Whether all accounts can be told apart.
    pub const fn is_whole(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw)
    }

    /// Whether it sees wake-ups, moves between CPUs, and what the other threads of a process do.
    pub const fn sees_scheduling(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw | Fidelity::Tracepoint)
    }

    /// Whether it sees page faults.
    pub const fn sees_faults(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw | Fidelity::Procfs)
    }
}

/// What became of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In place.
    Ok,
    /// Refused, and another one is in place that tells the same.
    Fallback,
    /// This kernel lacks it; what it would have told is missing.
    Unsupported,
    /// It should have worked and did not.
    Broken,
    /// Not asked for.
    Off,
}

impl Outcome {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Fallback => "fallback",
            Outcome::Unsupported => "unsupported",
            Outcome::Broken => "broken",
            Outcome::Off => "off",
        }
    }
}

/// A hook, what became of it, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// As in KERNELS.md, for instance `tp_btf/sched_switch`.
    pub hook: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What it is for, or what is missing without it.
    pub consequence: String,
    /// What to do about it, if anything.
    pub remedy: Option<String>,
}

impl Verdict {
    /// It was in place, and is no more.
    pub fn fail(&mut self, why: &str) {
        self.outcome = Outcome::Broken;
        self.consequence = format!("missing: {}: {why}", self.consequence);
    }
}

/// Records that did not arrive, counted by the kernel side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLosses {
    /// Edges for which the ring had no room.
    pub edges: u64,
    /// Forks, execs and exits for which the ring had no room.
    pub task_events: u64,
    /// Threads without a slot: not tracked.
    pub tasks_missed: u64,
    /// Edges torn by switches.
    pub edges_torn: u64,
    /// Slots found taken by a task that had left unseen.
    pub stale_slots: u64,
    /// Edges with an unknown ABI.
    pub unknown_abi: u64,
    /// Long waits for which the ring had no room.
    pub waits: u64,
    /// Edges at which the sum over the process's threads was torn.
    pub sums_torn: u64,
    /// Threads whose end no hook saw, found when the kernel freed them.
    pub ends_unseen: u64,
    /// I/Os whose time is not known: no room for them on their way or in the ring, or their ends were missed.
    pub ios: u64,
    /// Edges that a thread began to write into shared memory and did not finish (fidelity `procfs`).
    pub edges_unfinished: u64,
    /// Times that the kernel did not run a probe because it was under way on that CPU, for whatever task.
    pub runs_left_out: u64,
}

/// What the agent itself used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCost {
    /// CPU time of the agent's process, user and system, in its own threads, and of the helper that asks graphics processors.
    pub cpu: Duration,
    /// Wall time that this refers to.
    pub wall: Duration,
    /// Largest resident set, in bytes.
    pub rss_peak_bytes: u64,
    /// From start to all probes in place.
    pub attach: Duration,
    /// CPU time inside the BPF programs, where the kernel counts it (needs statistics to be on).
    pub bpf: Option<Duration>,
}

/// What became of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportHealth {
    /// Where to, without credentials; none if no export was asked for.
    pub endpoint: Option<String>,
    /// Spans that the collector took.
    pub spans_sent: u64,
    /// Traces all of whose spans the collector took.
    pub traces_sent: u64,
    /// Spans written to the run folder because the collector was away.
    pub spans_spilled: u64,
    /// Spans dropped: neither sent nor spilled.
    pub spans_dropped: u64,
    /// Spans that the collector took and refused (partial success), where it says.
    pub spans_rejected: u64,
    /// Waits that their traces neither show nor count, because there was no room to keep them until their requests came.
    pub waits_left_out: u64,
    /// The last error, for people.
    pub last_error: Option<String>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// How much can be seen.
    pub fidelity: Fidelity,
    /// Hook by hook.
    pub hooks: Vec<Verdict>,
    /// Kernel side.
    pub kernel: KernelLosses,
    /// Pairing.
    pub pairing: PairingLosses,
    /// Processes whose first mark waited in vain: they went on before the agent was ready.
    pub programs_unanswered: u64,
    /// Connections to the agent's socket from processes that are not observed, or that said nothing. Nothing is lost by them.
    pub not_let_in: u64,
    /// Where phases could come from, and what came; known at the end.
    pub sources: Vec<Report>,
    /// Own cost.
    pub cost: AgentCost,
    /// Export.
    pub export: ExportHealth,
    /// What could not be written to the run folder, for people; none if all is there.
    pub folder_error: Option<String>,
    /// Rows that could not be written to the run folder.
    pub rows_lost: u64,
}
