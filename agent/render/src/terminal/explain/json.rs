//! An explanation as JSON: stable keys that contain the units, everything in the text and what the text sums
//! up.
//!
//! Yields one JSON object of `format` 1, with the same escaping as the summary's. Keys are only ever added.

use serde::Serialize;

use crate::analyze::{
    Cause, Group, MostCalled,
    explain::{
        Advised, Ahead, Behind, By, Case, CasePhase, Circle, Compared, Evidence, Explained, Explanation,
        HelperWaits, Meanwhile, Naming, NotCounted, OfGroup, Part, Sampled, Tail, TailCause, TailPart, Whose,
    },
};
use crate::untrusted::{Shown as _, Untrusted};

use super::{
    super::{
        gpu_work,
        hidden::{OpenJson, open_json},
        json::{FORMAT, HeadlineJson, headline_json, print},
        limits::{self, LimitJson},
        starved::{self, StarvedJson},
        units::hex,
        unseen,
    },
    advised::advised,
    facts::{ExplainFacts, ExplainedRun},
    json_waits::{ByJson, CulpritJson, Seen, WaitsJson, by, of_culprit, of_waits},
    worked::{self, GpuJson},
};

#[derive(Serialize)]
struct ExplanationJson<'a> {
    format: u32,
    folder: Untrusted,
    name: &'a str,
    scenario: &'a str,
    fidelity: &'static str,
    accounts_not_seen: Vec<&'static str>,
    is_open: bool,
    notes: &'a [String],
    not_counted: Option<&'static str>,
    /// Requests without an end, the longest.
    open: Vec<OpenJson<'a>>,
    /// Marks of threads that were not tracked.
    marks_untracked: u64,
    requests: u64,
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    name: &'a Untrusted,
    requests: u64,
    p50_ns: u64,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: u64,
    typical_ns: u64,
    typical_of: u64,
    headline: HeadlineJson,
    /// What keeps the graphics processor waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_waits_for: Option<StarvedJson>,
    /// Limits that explain causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitJson<'a>>,
    advice: Vec<AdviceJson>,
    /// The system call that took the explained requests longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_called: Option<MostCalledJson>,
    who: Vec<WhoJson>,
    tails: Vec<TailJson<'a>>,
    explained: Vec<CaseJson<'a>>,
}

#[derive(Serialize)]
struct MostCalledJson {
    syscall: u32,
    /// How many of the samples were in it, at least.
    at_least: u64,
    samples: u64,
}

#[derive(Serialize)]
struct AdviceJson {
    cause: &'static str,
    /// Whose processes had the CPU, where the advice depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'static str>,
    because: &'static str,
    text: String,
    source: String,
}

/// A culprit of one cause, over all of the slowest requests.
#[derive(Serialize)]
struct WhoJson {
    cause: &'static str,
    culprit: CulpritJson,
    count: u64,
    ns: u64,
    kept_ns: u64,
}

#[derive(Serialize)]
struct TailJson<'a> {
    band: &'static str,
    above_ns: u64,
    requests: u64,
    excess_ns: i64,
    causes: Vec<TailCauseJson>,
    parts: Vec<TailPartJson<'a>>,
}

#[derive(Serialize)]
struct TailCauseJson {
    cause: &'static str,
    excess_ns: i64,
    share: f64,
    main_cause_of: u64,
}

#[derive(Serialize)]
struct TailPartJson<'a> {
    path: &'a [Untrusted],
    cause: &'static str,
    excess_ns: i64,
    share: f64,
}

#[derive(Serialize)]
struct CaseJson<'a> {
    request: u64,
    trace_id: String,
    pid: u32,
    start_ns: u64,
    latency_ns: u64,
    excess_ns: i64,
    cause: Option<&'static str>,
    phases: Vec<PhaseJson<'a>>,
    /// What a GPU did for it, if it lies within a window in which that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_work: Option<GpuJson<'a>>,
}

#[derive(Serialize)]
struct PhaseJson<'a> {
    path: &'a [Untrusted],
    /// The typical request has this phase.
    is_in_typical: bool,
    excess_ns: i64,
    parts: Vec<PartJson<'a>>,
}

#[derive(Serialize)]
struct PartJson<'a> {
    cause: &'static str,
    excess_ns: i64,
    ns: u64,
    typical_ns: u64,
    waits: Option<WaitsJson>,
    helpers: Vec<HelperJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meanwhile: Option<MeanwhileJson>,
    counts: Vec<CountJson>,
    sampled: Option<SampledJson>,
    ahead: Vec<AheadJson>,
}

/// Other threads of its process while it waited.
#[derive(Serialize)]
struct MeanwhileJson {
    cpu_ns: u64,
    typical_cpu_ns: f64,
}

#[derive(Serialize)]
struct AheadJson {
    request: u64,
    ns: u64,
    latency_ns: u64,
    cause: Option<&'static str>,
}

#[derive(Serialize)]
struct HelperJson<'a> {
    tid: u32,
    comm: Option<&'a Untrusted>,
    count: u64,
    ns: u64,
    by: Vec<ByJson>,
}

#[derive(Serialize)]
struct CountJson {
    name: &'static str,
    count: u64,
    typical: f64,
}

#[derive(Serialize)]
struct SampledJson {
    samples: u64,
    of: u64,
    typical: f64,
    excess_low_ns: u64,
    excess_high_ns: u64,
}

/// The explanation as one JSON object, with a line end.
pub fn render_explanation_json(explanation: &Explanation, facts: &ExplainFacts) -> String {
    let run = ExplainedRun { explanation, facts };
    let groups = explanation.summary.groups.iter().zip(&explanation.groups);
    print(&ExplanationJson {
        format: FORMAT,
        folder: facts.folder.shown(),
        name: &facts.name,
        scenario: &facts.scenario,
        fidelity: facts.fidelity.map_or("unknown", crate::health::Fidelity::name),
        accounts_not_seen: facts
            .fidelity
            .map_or_else(Vec::new, unseen::accounts)
            .iter()
            .map(|account| account.name())
            .collect(),
        is_open: facts.is_open,
        notes: &facts.notes,
        not_counted: explanation.not_counted.map(|why| match why {
            NotCounted::Warmup => "warmup",
            NotCounted::Unfinished => "unfinished",
            NotCounted::Damaged => "damaged",
        }),
        open: open_json(&facts.hidden),
        marks_untracked: facts.hidden.untracked.marks,
        requests: explanation.summary.requests(),
        groups: groups.map(|(group, explained)| of_group(group, explained, run)).collect(),
    })
}

fn of_group<'a>(group: &'a Group, explained: &'a Explained, run: ExplainedRun<'a>) -> GroupJson<'a> {
    let ExplainedRun { explanation, facts } = run;
    let (advised, limits) = advised(group, explained, &explanation.circle, facts);
    GroupJson {
        name: &group.name,
        requests: group.latency.count,
        p50_ns: group.latency.p50_ns,
        p90_ns: group.latency.p90_ns,
        p99_ns: group.latency.p99_ns,
        max_ns: group.latency.max_ns,
        typical_ns: group.typical_ns,
        typical_of: group.typical_of,
        headline: headline_json(group, &explained.headline(group), facts.cpu_quota.as_ref()),
        gpu_waits_for: starved::json(
            group,
            gpu_work::busy_percent(group, facts.gpu_work.as_ref(), facts.gpu_serving_percent),
        ),
        most_called: explained.most_called(&explanation.circle).map(
            |MostCalled { syscall, at_least, of: samples }| MostCalledJson { syscall, at_least, samples },
        ),
        who: causes(&advised)
            .into_iter()
            .flat_map(|cause| who(explained, cause, &explanation.circle))
            .collect(),
        limits: limits.iter().map(limits::json).collect(),
        advice: advised.into_iter().map(advice).collect(),
        tails: explained.tails.iter().map(tail).collect(),
        explained: explained
            .cases
            .iter()
            .take(facts.shown.most())
            .map(|one| case(one, explanation))
            .collect(),
    }
}

/// Causes that are advised on, each once.
fn causes(advised: &[Advised]) -> Vec<&'static str> {
    let mut causes: Vec<&'static str> = advised.iter().map(|one| one.cause).collect();
    causes.dedup();
    causes
}

fn advice(Advised { cause, group, naming, advice }: Advised) -> AdviceJson {
    let because = match naming {
        Naming::Slowest => "slowest_requests",
        Naming::Tail => "tail",
        Naming::Case => "request",
        Naming::Counts { .. } => "counts",
        Naming::Limit => "limit",
    };
    let group = group.map(Whose::name);
    AdviceJson { cause, group, because, text: advice.text, source: advice.source }
}

fn who(explained: &Explained, cause: &'static str, circle: &Circle) -> Vec<WhoJson> {
    let Some(known) = Cause::all().find(|known| known.name() == cause) else { return Vec::new() };
    let Behind { by, .. } = explained.behind(known, circle);
    let one = |OfGroup { group, by: By { culprit, count, ns, kept_ns } }: OfGroup| WhoJson {
        cause,
        culprit: of_culprit(&culprit, group),
        count,
        ns,
        kept_ns,
    };
    by.into_iter().map(one).collect()
}

fn tail(tail: &Tail) -> TailJson<'_> {
    let cause = |one: &TailCause| TailCauseJson {
        cause: one.cause.name(),
        excess_ns: signed(one.excess_ns),
        share: one.share,
        main_cause_of: one.requests,
    };
    TailJson {
        band: tail.band.name(),
        above_ns: tail.above_ns,
        requests: tail.requests,
        excess_ns: signed(tail.excess_ns),
        causes: tail.causes.iter().map(cause).collect(),
        parts: tail.parts.iter().map(tail_part).collect(),
    }
}

fn tail_part(part: &TailPart) -> TailPartJson<'_> {
    let TailPart { path, cause, excess_ns, share } = part;
    TailPartJson { path, cause: cause.name(), excess_ns: signed(*excess_ns), share: *share }
}

fn case<'a>(case: &'a Case, explanation: &'a Explanation) -> CaseJson<'a> {
    let seen = Seen { circle: &explanation.circle, case };
    CaseJson {
        request: case.request,
        trace_id: hex(&case.trace_id),
        pid: case.pid,
        start_ns: case.start_ns,
        latency_ns: case.latency_ns,
        excess_ns: case.excess_ns,
        cause: case.dominant().map(Cause::name),
        phases: case.phases.iter().map(|one| phase(one, explanation, &seen)).collect(),
        gpu_work: case.gpu.as_ref().map(worked::json),
    }
}

fn phase<'a>(phase: &'a CasePhase, explanation: &'a Explanation, seen: &Seen<'_>) -> PhaseJson<'a> {
    let CasePhase { path, is_usual, excess_ns, parts } = phase;
    let parts = parts.iter().map(|one| part(one, explanation, seen)).collect();
    PhaseJson { path, is_in_typical: *is_usual, excess_ns: *excess_ns, parts }
}

fn part<'a>(part: &'a Part, explanation: &'a Explanation, seen: &Seen<'_>) -> PartJson<'a> {
    let Part { cause, excess_ns, ns, typical_ns, evidence } = part;
    let Evidence { waits, left_out: _, helpers, meanwhile, counts, sampled, ahead } = evidence;
    let helper = |one: &'a HelperWaits| {
        let HelperWaits { tid, count, ns, by: waits } = one;
        let comm = explanation.threads.get(tid).map(|named| &named.comm);
        HelperJson {
            tid: *tid,
            comm,
            count: *count,
            ns: *ns,
            by: waits.iter().map(|one| by(one, seen)).collect(),
        }
    };
    let count = |Compared { metric, count, typical }: &Compared| CountJson {
        name: metric.row().full_name(),
        count: *count,
        typical: *typical,
    };
    let samples = |sampled: &Sampled| {
        let Sampled { samples, of, typical, low_ns, high_ns } = *sampled;
        SampledJson { samples, of, typical, excess_low_ns: low_ns, excess_high_ns: high_ns }
    };
    PartJson {
        cause: cause.name(),
        excess_ns: *excess_ns,
        ns: *ns,
        typical_ns: *typical_ns,
        waits: waits.as_ref().map(|waits| of_waits(waits, seen)),
        helpers: helpers.iter().map(helper).collect(),
        meanwhile: meanwhile
            .map(|Meanwhile { ns, typical_ns }| MeanwhileJson { cpu_ns: ns, typical_cpu_ns: typical_ns }),
        counts: counts.iter().map(count).collect(),
        sampled: sampled.as_ref().map(samples),
        ahead: ahead.iter().map(of_ahead).collect(),
    }
}

fn of_ahead(Ahead { request, ns, latency_ns, cause }: &Ahead) -> AheadJson {
    AheadJson { request: *request, ns: *ns, latency_ns: *latency_ns, cause: cause.map(Cause::name) }
}

/// JSON readers have 64 bits at most: a larger sum is cut there.
fn signed(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}
