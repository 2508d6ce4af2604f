//! The agent's report on itself: hooks, losses, its own cost. Every stage may add to its counters.
//!
//! Every output contains it, so that readers learn what was not observed.

pub mod losses;

use std::time::Duration;

use crate::{phase::PairingLosses, sources::Report};

/// Which accounts can be measured here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Kernel BTF: the whole ledger.
    Full,
    /// BTF from a file: the whole ledger too, by raw tracepoints. Running processes cannot be attached to.
    Raw,
    /// No BTF: classic tracepoints give `cpu`, `runq` and the rest.
    Tracepoint,
    /// No BPF: threads report their phases, with the counters that the kernel gives each thread about itself.
    Procfs,
    /// Nothing can be observed.
    None,
}

impl Fidelity {
    /// All fidelities, from the most to the least.
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
    /// Whether all accounts are measured.
    pub const fn is_whole(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw)
    }

    /// Whether wake-ups, moves between CPUs, and the other threads of a process are seen.
    pub const fn sees_scheduling(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw | Fidelity::Tracepoint)
    }

    /// Whether page faults are seen.
    pub const fn sees_faults(self) -> bool {
        matches!(self, Fidelity::Full | Fidelity::Raw | Fidelity::Procfs)
    }
}

/// State of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The hook is attached.
    Ok,
    /// Refused; another hook is attached that gives the same data.
    Fallback,
    /// This kernel lacks it; its data is missing.
    Unsupported,
    /// It should have been attached and was not.
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

/// A hook, its state, and what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Name as in KERNELS.md, for instance `tp_btf/sched_switch`.
    pub hook: String,
    /// State.
    pub outcome: Outcome,
    /// Purpose of the hook, or what is missing without it.
    pub consequence: String,
    /// Remedy, if there is any.
    pub remedy: Option<String>,
}

impl Verdict {
    /// Marks a hook that was in place as lost.
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
    /// Forks, execs, exits and new names for which the ring had no room.
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
    /// Marks of threads that were not tracked, of processes that were observed.
    pub marks_untracked: u64,
    /// Those of them that began a request.
    pub requests_untracked: u64,
    /// Times that the kernel did not run a probe because it was already running on that CPU, for any task.
    pub runs_left_out: u64,
}

/// Resources that the agent used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCost {
    /// CPU time of the agent's process, user and system, in its own threads, and of the NVML process.
    pub cpu: Duration,
    /// Wall time to which the CPU times refer.
    pub wall: Duration,
    /// Largest resident set, in bytes.
    pub rss_peak_bytes: u64,
    /// Time from the start until all probes were in place.
    pub attach: Duration,
    /// CPU time inside the BPF programs, where the kernel counts it (BPF statistics must be enabled).
    pub bpf: Option<Duration>,
}

/// State of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportHealth {
    /// Endpoint, without credentials; none if no export was asked for.
    pub endpoint: Option<String>,
    /// Spans that the collector took.
    pub spans_sent: u64,
    /// Traces all of whose spans the collector took.
    pub traces_sent: u64,
    /// Spans written to the run folder because the collector was away.
    pub spans_spilled: u64,
    /// Spans dropped: neither sent nor spilled.
    pub spans_dropped: u64,
    /// Spans that the collector accepted and then rejected (partial success), where it reports them.
    pub spans_rejected: u64,
    /// Waits that their traces neither show nor count, because there was no room to keep them until their
    /// requests came.
    pub waits_left_out: u64,
    /// The last error, for people.
    pub last_error: Option<String>,
}

/// All health counters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Fidelity of the run.
    pub fidelity: Fidelity,
    /// Hook by hook.
    pub hooks: Vec<Verdict>,
    /// Losses of the kernel side.
    pub kernel: KernelLosses,
    /// Losses of pairing.
    pub pairing: PairingLosses,
    /// Processes whose first mark waited in vain: they continued before the agent was ready.
    pub programs_unanswered: u64,
    /// Connections to the agent's socket from processes that are not observed, or that sent nothing. They
    /// cost no data.
    pub not_let_in: u64,
    /// Sources that could make phases, and what they made; known at the end.
    pub sources: Vec<Report>,
    /// The agent's own cost.
    pub cost: AgentCost,
    /// State of the export.
    pub export: ExportHealth,
    /// Why writing to the run folder failed, for people; none if the folder is complete.
    pub folder_error: Option<String>,
    /// Rows that could not be written to the run folder.
    pub rows_lost: u64,
}
