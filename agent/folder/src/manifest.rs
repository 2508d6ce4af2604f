//! `manifest.json`: what was run, where, when, how completely it was seen, and the folder's other contents.
//!
//! Plain serde structs, format 2; callers fill them. Readers ignore unknown fields, and missing ones are
//! empty, so that one may be added without a new format.

use std::collections::BTreeMap;

use guestscope_model::limits::Limit;
use serde::{Deserialize, Serialize};

use super::{
    CostRecord, IncidentRecord, KeptRecord, RestoredRecord, SourceRecord, UnfinishedRecord, gpu::GpuRecord,
    histogram_index::Histograms, name::rfc3339, source_record::is_zero,
};
use crate::{
    clock,
    health::{ExportHealth, Health, Verdict, losses},
    phase::Restored,
};

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// The format written, and the newest read. It goes up when an old reader would get something wrong: since 2
/// times are no longer called counts, and all are in ns.
pub const FORMAT: u32 = 2;

/// Maximum number of restorations that are kept: the first ones.
pub const MOST_RESTORED: usize = 256;

/// The manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Being written, or complete.
    pub state: State,
    /// 16 random bytes, hexadecimal.
    pub run_id: String,
    /// Name of the run, as the user gave it.
    pub name: String,
    /// The command observed, with its arguments; empty if it was attached to.
    pub command: Vec<String>,
    /// Start, wall time, RFC 3339.
    pub start: String,
    /// End, wall time, RFC 3339; empty while it runs and after a crash.
    pub end: String,
    /// The two clocks side by side: at the start, every minute, at the end.
    pub clocks: Vec<ClockPair>,
    /// Detected restorations or moves of the guest; the first 256.
    pub restored: Vec<RestoredRecord>,
    /// /proc/sys/kernel/random/boot_id: monotonic times of two runs compare only within one boot.
    pub boot_id: String,
    /// `platform/cores/pinning/processor`.
    pub scenario: String,
    /// The platform alone.
    pub platform: String,
    /// The hypervisor, such as `QEMU on TCG`; empty on bare metal, where it is unknown, and in older folders.
    pub hypervisor: String,
    /// The container runtime, such as `docker`; empty outside of containers, where it is unknown, and in
    /// older folders.
    pub container_runtime: String,
    /// Container-host core ratio: CPUs usable at a time over CPUs seen. None outside of containers.
    pub host_core_ratio: Option<f64>,
    /// Fidelity of the observation.
    pub fidelity: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture, which gives the kernel's numbers their meaning: `x86_64` or `aarch64`. Empty in folders
    /// from before this was kept.
    pub arch: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs that the guest has.
    pub logical_cpus: u32,
    /// Memory that the guest has, bytes.
    pub memory_bytes: u64,
    /// Limits of the observed cgroup.
    pub limits: Limits,
    /// The group that has the CPU quota in `limits`, as the guest names it; empty if there is none.
    pub cpu_quota_group: String,
    /// Limits on the observed processes, and how often and when each was hit. Empty in older folders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits_seen: Vec<Limit>,
    /// Samples of busy-waiting over all observed threads, by library. Empty in older folders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spun: BTreeMap<String, u64>,
    /// Samples in system calls over all observed threads, by the number of the call. Empty in older folders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub called: BTreeMap<u32, u64>,
    /// Process ID of the agent in the initial namespace; none where that is unknown.
    pub agent_pid: Option<u32>,
    /// The process that was started; none if it was attached to.
    pub child: Option<Child>,
    /// Graphics processors, and what they were seen to do.
    pub gpu: GpuRecord,
    /// Requests without an end; while the run goes on, those that have been open for a second.
    pub unfinished: UnfinishedRecord,
    /// What made this folder, if a resident agent kept it because of something that happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentRecord>,
    /// The part of the run that the rows are of, if it is not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRecord>,
    /// Threads that could be tracked at a time; none in older folders.
    pub max_threads: Option<u32>,
    /// The workload's description of itself, as it wrote it.
    pub workload: Option<serde_json::Map<String, serde_json::Value>>,
    /// Versions of the writer.
    pub versions: Versions,
    /// The agent's health.
    pub health: HealthRecord,
    /// Rows in each table.
    pub rows: RowCounts,
    /// Rows that could not be written.
    pub rows_lost: RowCounts,
    /// Index of `histograms/`.
    pub histograms: Histograms,
}

/// State of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Being written; after a crash, for ever.
    #[default]
    Running,
    /// Complete.
    Closed,
}

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub wall_ns: u64,
}

/// Limits of a cgroup; what is none is unlimited or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// CPU time per period, ns.
    pub cpu_quota_ns: Option<u64>,
    /// The period, ns.
    pub cpu_period_ns: Option<u64>,
    /// CPUs that it may run on.
    pub cpus: Option<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Threads.
    pub pids: Option<u64>,
}

/// The process that was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Child {
    /// User that it ran as.
    pub uid: u32,
    /// How the program ended; none while it runs.
    pub exit: Option<Exit>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

impl Exit {
    /// Whether it exited with code 0.
    pub const fn is_success(self) -> bool {
        matches!(self, Exit::Code(0))
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Versions of the writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Versions {
    /// Version of this program.
    pub guestscope: String,
    /// Version of the contract between its kernel side and the rest.
    pub contract: u32,
}

/// Rows by table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowCounts {
    /// Rows of `phases`.
    pub phases: u64,
    /// Rows of `threads`.
    pub threads: u64,
    /// Rows of `samples`.
    pub samples: u64,
    /// Rows of `marks`.
    pub marks: u64,
    /// Rows of `waits`.
    pub waits: u64,
    /// Rows of `gpu_work`.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpu_work: u64,
}

/// [`Health`] in its stored form, without the fidelity, which is beside the scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthRecord {
    /// Hook by hook.
    pub hooks: Vec<HookRecord>,
    /// Counts of what was lost or could not be paired, by name, zeros included.
    pub losses: BTreeMap<String, u64>,
    /// The agent's own cost.
    pub cost: CostRecord,
    /// The export.
    pub export: ExportRecord,
    /// Why rows are missing from the folder, for people.
    pub folder_error: Option<String>,
    /// Connections to the agent's socket from processes that are not observed, or that said nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_let_in: Option<u64>,
    /// Sources of phases, and what they yielded.
    pub sources: Vec<SourceRecord>,
}

/// [`Verdict`] in its stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRecord {
    /// Name, as in KERNELS.md.
    pub hook: String,
    /// ok, unsupported, broken or off.
    pub outcome: String,
    /// Purpose of the hook, or what is missing without it.
    pub consequence: String,
    /// How to enable it, if possible.
    pub remedy: Option<String>,
}

/// [`ExportHealth`] in its stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportRecord {
    /// Endpoint, without credentials; none if there was no export.
    pub endpoint: Option<String>,
    /// Spans that the collector took.
    pub spans_sent: u64,
    /// Traces all of whose spans it took.
    pub traces_sent: u64,
    /// Spans kept in the folder because it was away.
    pub spans_spilled: u64,
    /// Spans neither sent nor kept.
    pub spans_dropped: u64,
    /// Spans that it took and refused.
    pub spans_rejected: u64,
    /// Waits that traces lack for want of room.
    pub waits_left_out: u64,
    /// The last error, for people.
    pub last_error: Option<String>,
}

impl Manifest {
    /// Manifest of a run that starts now; the caller fills in everything else.
    pub fn new(run_id: [u8; 16], name: &str, start: ClockPair) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            format: FORMAT,
            run_id: format!("{:032x}", u128::from_be_bytes(run_id)),
            name: name.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            start: rfc3339(start.wall_ns),
            clocks: vec![start],
            versions: Versions { guestscope: version, contract: guestscope_contract::CONTRACT_VERSION },
            ..Self::default()
        }
    }

    /// Notes both clocks; see [`clock::add`] for which are kept.
    pub fn add_clock(&mut self, clock: ClockPair) {
        clock::add(&mut self.clocks, clock);
    }

    /// Notes that the guest was restored or moved.
    pub fn add_restored(&mut self, restored: Restored) {
        if self.restored.len() < MOST_RESTORED {
            self.restored.push(restored.into());
        }
    }

    /// Notes the end.
    pub fn set_end(&mut self, clock: ClockPair) {
        self.end = rfc3339(clock.wall_ns);
        // Unless it came the way of the others.
        if self.clocks.last() != Some(&clock) {
            self.add_clock(clock);
        }
    }

    /// Wall time, ns since 1970, of a monotonic time: by the pair before it, or the first.
    pub fn wall_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.wall_offset_ns(monotonic_ns))
    }

    /// Offset from monotonic to wall times of a request that began then, ns: the same that a live export
    /// added.
    pub fn wall_offset_ns(&self, start_ns: u64) -> i64 {
        clock::in_force(&self.clocks, start_ns, |&pair| pair.into()).offset_ns()
    }

    /// Takes over the agent's health, fidelity included.
    pub fn set_health(&mut self, health: &Health) {
        let losses = losses::of_observation(health).map(|loss| (loss.stored_key(), loss.count)).collect();
        let Health {
            fidelity,
            hooks,
            kernel: _,
            pairing: _,
            programs_unanswered: _,
            not_let_in,
            sources,
            cost,
            export,
            folder_error,
            rows_lost: _,
        } = health;
        fidelity.name().clone_into(&mut self.fidelity);
        self.health = HealthRecord {
            hooks: hooks.iter().map(HookRecord::from).collect(),
            losses,
            cost: CostRecord::from(cost),
            export: ExportRecord::from(export),
            folder_error: folder_error.clone(),
            not_let_in: Some(*not_let_in).filter(|&count| count > 0),
            sources: sources.iter().map(SourceRecord::from).collect(),
        };
    }
}

impl From<ClockPair> for clock::ClockPair {
    fn from(ClockPair { monotonic_ns, wall_ns }: ClockPair) -> Self {
        Self { monotonic_ns, wall_ns }
    }
}

impl From<&Verdict> for HookRecord {
    fn from(verdict: &Verdict) -> Self {
        let Verdict { hook, outcome, consequence, remedy } = verdict.clone();
        Self { hook, outcome: outcome.name().to_owned(), consequence, remedy }
    }
}

impl From<&ExportHealth> for ExportRecord {
    fn from(export: &ExportHealth) -> Self {
        let ExportHealth {
            endpoint,
            spans_sent,
            traces_sent,
            spans_spilled,
            spans_dropped,
            spans_rejected,
            waits_left_out,
            last_error,
        } = export.clone();
        Self {
            endpoint,
            spans_sent,
            traces_sent,
            spans_spilled,
            spans_dropped,
            spans_rejected,
            waits_left_out,
            last_error,
        }
    }
}
