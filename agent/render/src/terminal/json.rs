//! The summary of a run as JSON: stable keys that contain the units, every number of the text.
//!
//! Yields one JSON object of `format` 2. Keys are only ever added. Characters that a terminal might obey are
//! escaped, because people print JSON too.

use std::collections::BTreeMap;

use crate::untrusted::{Shown as _, Untrusted};
use guestscope_contract::metrics::Class;
use serde::Serialize;

use crate::{
    analyze::{Excess, Group, Headline, ProcessRow, Quantiles, Row, RowKind, Slow, Summary, Sums, limited},
    health::{AgentCost, Health, Verdict},
    phase::{COUNTS, Metric, Quantity},
    platform::CpuQuota,
    run::GpuRecord,
};

use super::{
    facts::{Exit, RunFacts},
    findings::headline_of,
    gpu_work::{self, GpuWorkJson},
    health_lines::losses,
    helpers::{self, HelpersJson},
    hidden::{OpenJson, open_json},
    hints::{self, HintJson},
    json_values::{ByName, ns, time},
    json_wait::{WaitJson, wait},
    limits::{self, LimitJson},
    restored::{self, RestoredJson},
    sources::{self, SourceJson},
    starved::{self, StarvedJson},
    threads::{self, ThreadsJson},
    units::hex,
    unseen,
};

/// Version of the keys.
pub(super) const FORMAT: u32 = 2;

#[derive(Serialize)]
struct SummaryJson<'a> {
    format: u32,
    version: &'a str,
    scenario: &'a str,
    fidelity: &'static str,
    accounts_not_seen: Vec<&'static str>,
    kernel: Option<&'a str>,
    service: &'a str,
    command: &'a [String],
    wall_ns: u64,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    restored: Vec<RestoredJson>,
    gpu: &'a GpuRecord,
    /// What ran on graphics processors for phases, where it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_work: Option<GpuWorkJson<'a>>,
    /// Requests without an end, the longest.
    open: Vec<OpenJson<'a>>,
    /// Numbers of all of them.
    unfinished: ByName,
    requests: u64,
    groups: Vec<GroupJson<'a>>,
    left_out: ByName,
    processes: Vec<ProcessJson<'a>>,
    processes_seen: u64,
    threads: ThreadsJson<'a>,
    hints: Vec<HintJson<'a>>,
    /// The part of the run that the statistics are of, if not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<&'a str>,
    hooks: Vec<HookJson<'a>>,
    losses: ByName,
    agent: AgentJson,
    export: ExportJson<'a>,
    folder: Option<Untrusted>,
    folder_error: Option<&'a str>,
    /// Sources of phases, and what came from each.
    sources: Vec<SourceJson>,
    /// Connections to the agent's socket that were closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_let_in: Option<u64>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    name: &'a Untrusted,
    latency: QuantilesJson,
    throughput_per_s: f64,
    headline: HeadlineJson,
    /// What keeps the graphics processor waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_waits_for: Option<StarvedJson>,
    /// Limits that explain causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitJson<'a>>,
    time: ByName,
    #[serde(flatten)]
    counts: CountsJson,
    helpers: HelpersJson,
    typical: TypicalJson,
    phases: Vec<RowJson<'a>>,
    slowest: Vec<SlowJson<'a>>,
    overlapping_requests: u64,
    lossy_requests: u64,
}

/// What is read at edges, an object for each class, in the table's names.
#[derive(Serialize)]
struct CountsJson {
    overlay: ByName,
    operation: ByName,
    count: ByName,
}

#[derive(Serialize)]
struct TypicalJson {
    definition: &'static str,
    latency_ns: u64,
    requests: u64,
}

#[derive(Serialize)]
pub(super) struct HeadlineJson {
    kind: &'static str,
    cause: Option<&'static str>,
    text: String,
}

#[derive(Serialize)]
struct QuantilesJson {
    count: u64,
    sum_ns: u64,
    mean_ns: u64,
    min_ns: u64,
    p50_ns: u64,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: u64,
}

#[derive(Serialize)]
struct RowJson<'a> {
    path: &'a [Untrusted],
    kind: &'static str,
    share: f64,
    duration: QuantilesJson,
    time: ByName,
    #[serde(flatten)]
    counts: CountsJson,
}

#[derive(Serialize)]
struct SlowJson<'a> {
    request: u64,
    trace_id: String,
    start_ns: u64,
    fault_minor: u64,
    latency_ns: u64,
    excess_ns: i64,
    parts: Vec<ExcessJson<'a>>,
    longest_wait: Option<WaitJson<'a>>,
}

#[derive(Serialize)]
struct ExcessJson<'a> {
    path: &'a [Untrusted],
    cause: &'static str,
    excess_ns: i64,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    name: &'a Untrusted,
    pid: u32,
    wall_ns: u64,
    time: ByName,
    #[serde(flatten)]
    counts: CountsJson,
}

/// A hook, shared with the doctor.
#[derive(Serialize)]
pub(super) struct HookJson<'a> {
    hook: &'a str,
    outcome: &'static str,
    consequence: &'a str,
    remedy: Option<&'a str>,
}

#[derive(Serialize)]
struct AgentJson {
    cpu_ns: u64,
    wall_ns: u64,
    bpf_ns: Option<u64>,
    rss_peak_bytes: u64,
    attach_ns: u64,
}

#[derive(Serialize)]
struct ExportJson<'a> {
    endpoint: Option<&'a str>,
    traces_sent: u64,
    spans_sent: u64,
    last_error: Option<&'a str>,
}

/// The summary as one JSON object, with a line end.
pub fn render_summary_json(summary: &Summary, health: &Health, facts: &RunFacts) -> String {
    let left_out = summary.left_out;
    let (exit_code, exit_signal) = match facts.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
        Exit::Ended | Exit::Running => (None, None),
    };
    let export = &health.export;
    print(&SummaryJson {
        format: FORMAT,
        version: &facts.version,
        scenario: &facts.scenario,
        fidelity: health.fidelity.name(),
        accounts_not_seen: unseen::accounts(health.fidelity).iter().map(|account| account.name()).collect(),
        kernel: facts.kernel.as_deref(),
        service: &facts.service,
        command: &facts.command,
        wall_ns: ns(facts.wall.as_nanos()),
        exit_code,
        exit_signal,
        restored: restored::json(facts),
        gpu: &facts.gpu,
        gpu_work: facts.gpu_work.as_ref().map(gpu_work::json),
        requests: summary.requests(),
        groups: summary.groups.iter().map(|one| group(one, facts)).collect(),
        open: open_json(&facts.hidden),
        unfinished: BTreeMap::from([("open", facts.hidden.open), ("ended", facts.hidden.ended)]),
        left_out: BTreeMap::from([
            ("warmups", left_out.warmups),
            ("unfinished", left_out.unfinished),
            ("damaged", left_out.damaged),
        ]),
        processes: summary.processes.iter().map(process).collect(),
        processes_seen: summary.processes_seen,
        threads: threads::json(&summary.threads),
        hints: hints::json(&facts.hints),
        kept: facts.kept.as_deref(),
        hooks: health.hooks.iter().map(hook).collect(),
        losses: losses(health).into_iter().map(|loss| (loss.key, loss.count)).collect(),
        agent: agent(&health.cost),
        export: ExportJson {
            endpoint: export.endpoint.as_deref(),
            traces_sent: export.traces_sent,
            spans_sent: export.spans_sent,
            last_error: export.last_error.as_deref(),
        },
        folder: facts.folder.as_ref().map(|folder| folder.shown()),
        folder_error: health.folder_error.as_deref(),
        sources: sources::json(&health.sources),
        not_let_in: Some(health.not_let_in).filter(|&count| count > 0),
    })
}

pub(super) fn headline_json(group: &Group, found: &Headline, cpu_quota: Option<&CpuQuota>) -> HeadlineJson {
    let (kind, cause) = match found {
        Headline::TooFew { .. } => ("too_few_requests", None),
        Headline::Alike { .. } => ("nothing_stands_out", None),
        Headline::Shared { parts, .. } => ("several_causes", parts.first().map(|(cause, _)| cause.name())),
        Headline::Mixed { .. } => ("no_one_cause", None),
        Headline::Cause { cause, .. } => ("cause", Some(cause.name())),
    };
    HeadlineJson { kind, cause, text: headline_of(group, found, cpu_quota, true) }
}

fn group<'a>(group: &'a Group, facts: &'a RunFacts) -> GroupJson<'a> {
    GroupJson {
        name: &group.name,
        latency: quantiles(&group.latency),
        throughput_per_s: group.throughput_per_s,
        headline: headline_json(group, &group.headline, facts.cpu_quota.as_ref()),
        gpu_waits_for: starved::json(
            group,
            gpu_work::busy_percent(group, facts.gpu_work.as_ref(), facts.gpu.serving_percent()),
        ),
        limits: limited(group, &facts.limits).iter().map(limits::json).collect(),
        time: time(&group.sums),
        counts: counts(&group.counts, group.sums.pause),
        helpers: helpers::json(group),
        typical: TypicalJson {
            definition: "mean of the requests from the 25th to the 75th percentile of latency",
            latency_ns: group.typical_ns,
            requests: group.typical_of,
        },
        phases: group.rows.iter().map(row).collect(),
        slowest: group.slowest.iter().map(slow).collect(),
        overlapping_requests: group.overlapping,
        lossy_requests: group.lossy,
    }
}

fn row(row: &Row) -> RowJson<'_> {
    let kind = match row.kind {
        RowKind::Phase => "phase",
        RowKind::Queue => "queue",
        RowKind::Outside => "outside",
        RowKind::Other => "other",
    };
    RowJson {
        path: &row.path,
        kind,
        share: row.share,
        duration: quantiles(&row.duration),
        time: time(&row.sums),
        counts: counts(&row.counts, row.sums.pause),
    }
}

fn slow(slow: &Slow) -> SlowJson<'_> {
    SlowJson {
        request: slow.request,
        trace_id: hex(&slow.trace_id),
        start_ns: slow.start_ns,
        fault_minor: slow.fault_minor,
        latency_ns: slow.latency_ns,
        excess_ns: slow.excess_ns,
        parts: slow.parts.iter().map(excess).collect(),
        longest_wait: slow.longest_wait.as_ref().map(wait),
    }
}

fn excess(part: &Excess) -> ExcessJson<'_> {
    ExcessJson { path: &part.path, cause: part.cause.name(), excess_ns: part.excess_ns }
}

fn process(process: &ProcessRow) -> ProcessJson<'_> {
    let mut sums = Sums::default();
    sums.add(&process.split);
    ProcessJson {
        name: &process.name,
        pid: process.pid,
        wall_ns: process.wall_ns,
        time: time(&sums),
        counts: counts(&process.counts.to_array().map(u128::from), sums.pause),
    }
}

pub(super) fn hook(hook: &Verdict) -> HookJson<'_> {
    let Verdict { hook, outcome, consequence, remedy } = hook;
    HookJson { hook, outcome: outcome.name(), consequence, remedy: remedy.as_deref() }
}

fn agent(cost: &AgentCost) -> AgentJson {
    let AgentCost { cpu, wall, rss_peak_bytes, attach, bpf } = *cost;
    AgentJson {
        cpu_ns: ns(cpu.as_nanos()),
        wall_ns: ns(wall.as_nanos()),
        bpf_ns: bpf.map(|bpf| ns(bpf.as_nanos())),
        rss_peak_bytes,
        attach_ns: ns(attach.as_nanos()),
    }
}

fn quantiles(quantiles: &Quantiles) -> QuantilesJson {
    let Quantiles { count, sum_ns, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = *quantiles;
    let mean_ns = quantiles.mean_ns();
    QuantilesJson { count, sum_ns: ns(sum_ns), mean_ns, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns }
}

fn counts(sums: &[u128; COUNTS], pause_ns: u128) -> CountsJson {
    let of = |class: Class| {
        let metrics = Metric::ALL.into_iter().filter(move |metric| metric.row().class == class);
        metrics.map(|metric| (metric.row().key, ns(sums[metric as usize])))
    };
    let pause = (Quantity::Pause.row().key, ns(pause_ns));
    CountsJson {
        overlay: of(Class::Overlay).chain([pause]).collect(),
        operation: of(Class::Operation).collect(),
        count: of(Class::Count).collect(),
    }
}

/// Indented, with a line end. Serialising plain structures into memory has no way to fail.
pub(super) fn print(value: &impl Serialize) -> String {
    crate::json::pretty(value).unwrap_or_default()
}
