//! A comparison as JSON: stable keys that contain the units, all numbers of the text and further ones.
//!
//! Yields one JSON object of `format` 1. Keys are only ever added. Intervals are objects of `value`, `low`
//! and `high`; the ends are `null` if there are too few runs.

use crate::untrusted::Untrusted;
use serde::Serialize;

use crate::{
    analyze::Cause,
    analyze::compare::Work,
    analyze::compare::{
        Advised, Compared as OnePlatform, Cost, CountChange, CurvePoint, Decomposition, Interval, Judged,
        LimitDifference, OfCause, Part, SelfTest, Side, Verdict,
    },
};

use super::{
    super::{json::print, limits::clause},
    gpu::{self, GpuJson},
    numbers::IntervalJson,
    subject::Compared,
};

/// Version of the keys.
const FORMAT: u32 = 2;

#[derive(Serialize)]
struct ComparisonJson<'a> {
    format: u32,
    request: &'a Untrusted,
    is_process: bool,
    by: &'a str,
    work: WorkJson<'a>,
    folded: bool,
    notes: &'a [String],
    baseline: SideJson<'a>,
    platforms: Vec<PlatformJson<'a>>,
}

#[derive(Serialize)]
struct WorkJson<'a> {
    is_equal: Option<bool>,
    hash: Option<&'a str>,
    outputs_differ: Option<bool>,
    what: String,
}

#[derive(Serialize)]
struct SideJson<'a> {
    label: &'a str,
    runs: usize,
    emulated_runs: usize,
    requests_fewest: u64,
    requests_most: u64,
    warmup: u64,
    drift: Option<f64>,
    drifts: bool,
    autocorrelation: Option<f64>,
}

#[derive(Serialize)]
struct PlatformJson<'a> {
    #[serde(flatten)]
    side: SideJson<'a>,
    overall: &'static str,
    interleaved: bool,
    metrics: Vec<JudgedJson>,
    mean: DecompositionJson<'a>,
    tail: Option<TailJson<'a>>,
    costs: Vec<CostJson>,
    counts: Vec<CountJson>,
    curve: Vec<PointJson>,
    /// What GPUs did for requests, where both sides recorded it of enough of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_work: Option<GpuJson>,
    /// Limits that differ from the baseline's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitJson<'a>>,
    advice: Option<AdviceJson>,
    further_advice: Vec<AdviceJson>,
}

#[derive(Serialize)]
struct LimitJson<'a> {
    kind: &'static str,
    baseline: &'a str,
    value: &'a str,
    /// Causes of the difference that it explains.
    causes: Vec<&'static str>,
    hit: Option<String>,
}

#[derive(Serialize)]
struct JudgedJson {
    metric: String,
    unit: &'static str,
    baseline: f64,
    value: f64,
    ratio: IntervalJson,
    shift: f64,
    margin: f64,
    p: Option<f64>,
    p_holm: Option<f64>,
    p_permutation: Option<f64>,
    p_not_equivalent: Option<f64>,
    verdict: &'static str,
    clearly: bool,
    runs_needed: Option<u64>,
}

#[derive(Serialize)]
struct DecompositionJson<'a> {
    baseline_ns: f64,
    value_ns: f64,
    difference_ns: IntervalJson,
    residual_ns: f64,
    causes: Vec<CauseJson>,
    parts: Vec<PartJson<'a>>,
}

#[derive(Serialize)]
struct CauseJson {
    cause: &'static str,
    is_estimate: bool,
    baseline_ns: f64,
    difference_ns: IntervalJson,
}

#[derive(Serialize)]
struct PartJson<'a> {
    phase: &'a [Untrusted],
    #[serde(flatten)]
    of_cause: CauseJson,
}

#[derive(Serialize)]
struct TailJson<'a> {
    quantile: f64,
    #[serde(flatten)]
    decomposition: DecompositionJson<'a>,
}

#[derive(Serialize)]
struct CostJson {
    cause: &'static str,
    events: Vec<&'static str>,
    baseline_count: f64,
    count: f64,
    baseline_each_ns: f64,
    each_ns: f64,
    by_number_ns: f64,
    by_price_ns: f64,
}

#[derive(Serialize)]
struct CountJson {
    name: &'static str,
    baseline: f64,
    value: f64,
    difference: IntervalJson,
}

#[derive(Serialize)]
struct PointJson {
    quantile: f64,
    baseline_ns: f64,
    ratio: IntervalJson,
}

#[derive(Serialize)]
struct AdviceJson {
    cause: &'static str,
    /// Names of the counts behind the advice; none if times are.
    counts: Vec<&'static str>,
    text: String,
    source: String,
}

impl<'a> From<&'a Side> for SideJson<'a> {
    fn from(side: &'a Side) -> Self {
        let Side { label, runs, emulated, requests, warmup, drift, drifts, autocorrelation } = side;
        Self {
            label,
            runs: *runs,
            emulated_runs: *emulated,
            requests_fewest: requests.0,
            requests_most: requests.1,
            warmup: *warmup,
            drift: *drift,
            drifts: *drifts,
            autocorrelation: *autocorrelation,
        }
    }
}

impl From<&Judged> for JudgedJson {
    fn from(judged: &Judged) -> Self {
        let (clearly, runs_needed) = match judged.verdict {
            Verdict::Slower { clearly } | Verdict::Faster { clearly } => (clearly, None),
            Verdict::Inconclusive { runs_needed } => (false, Some(runs_needed)),
            Verdict::TooFewRuns | Verdict::Drift | Verdict::Negligible | Verdict::Equivalent => (false, None),
        };
        Self {
            metric: judged.metric.to_string(),
            unit: if judged.metric.is_rate() { "1/s" } else { "ns" },
            baseline: judged.baseline,
            value: judged.value,
            ratio: judged.ratio.into(),
            shift: judged.shift,
            margin: judged.margin,
            p: judged.probability,
            p_holm: judged.adjusted,
            p_permutation: judged.permutation,
            p_not_equivalent: judged.not_equivalent,
            verdict: judged.verdict.name(),
            clearly,
            runs_needed,
        }
    }
}

/// Whether the time comes from samples or coincidence, not from the clock.
const fn is_estimate(cause: Cause) -> bool {
    matches!(cause, Cause::Overlay(_) | Cause::Helper(_) | Cause::Pause)
}

fn cause_json(cause: Cause, baseline_ns: f64, difference_ns: Interval) -> CauseJson {
    CauseJson {
        cause: cause.name(),
        is_estimate: is_estimate(cause),
        baseline_ns,
        difference_ns: difference_ns.into(),
    }
}

impl<'a> From<&'a Decomposition> for DecompositionJson<'a> {
    fn from(decomposition: &'a Decomposition) -> Self {
        let of_cause = |of: &OfCause| cause_json(of.cause, of.baseline_ns, of.difference_ns);
        let part = |part: &'a Part| PartJson {
            phase: &part.path,
            of_cause: cause_json(part.cause, part.baseline_ns, part.difference_ns),
        };
        Self {
            baseline_ns: decomposition.baseline_ns,
            value_ns: decomposition.value_ns,
            difference_ns: decomposition.difference_ns.into(),
            residual_ns: decomposition.residual_ns,
            causes: decomposition.causes.iter().map(of_cause).collect(),
            parts: decomposition.parts.iter().map(part).collect(),
        }
    }
}

fn cost_json(cost: &Cost) -> CostJson {
    let Cost { cause, events, baseline_count, count, baseline_each_ns, each_ns, by_number_ns, by_price_ns } =
        *cost;
    let events = events.iter().map(|metric| metric.row().full_name()).collect();
    let cause = cause.name();
    CostJson { cause, events, baseline_count, count, baseline_each_ns, each_ns, by_number_ns, by_price_ns }
}

fn limit_json<'a>(one: &OnePlatform, difference: &'a LimitDifference) -> LimitJson<'a> {
    let causes = Cause::all().filter(|&cause| one.limited(cause) == Some(difference)).map(Cause::name);
    LimitJson {
        kind: difference.platform.kind.name(),
        baseline: &difference.baseline.text,
        value: &difference.platform.text,
        causes: causes.collect(),
        hit: one.hit_of(difference).map(clause),
    }
}

fn platform_json<'a>(one: &'a OnePlatform, baseline: &Side) -> PlatformJson<'a> {
    let count = |change: &CountChange| CountJson {
        name: change.metric.row().full_name(),
        baseline: change.baseline,
        value: change.value,
        difference: change.difference.into(),
    };
    let point = |point: &CurvePoint| PointJson {
        quantile: point.quantile,
        baseline_ns: point.baseline_ns,
        ratio: point.ratio.into(),
    };
    let advised = |Advised { cause, counts, advice }: Advised<'_>| AdviceJson {
        cause,
        counts: counts.iter().map(|change| change.metric.row().full_name()).collect(),
        text: advice.text,
        source: advice.source,
    };
    let mut advice: Vec<AdviceJson> = one.advised(baseline).into_iter().map(advised).collect();
    // The first is that on the first cause; moves are counted, and of no cause alone.
    let further_advice =
        advice.split_off(usize::from(advice.first().is_some_and(|one| one.counts.is_empty())));
    PlatformJson {
        side: (&one.side).into(),
        overall: one.overall.name(),
        interleaved: one.interleaved,
        metrics: one.judged.iter().map(JudgedJson::from).collect(),
        mean: (&one.mean).into(),
        tail: one
            .tail
            .as_ref()
            .map(|tail| TailJson { quantile: tail.quantile, decomposition: (&tail.decomposition).into() }),
        costs: one.costs.iter().map(cost_json).collect(),
        counts: one.counts.iter().map(count).collect(),
        curve: one.curve.iter().map(point).collect(),
        gpu_work: gpu::json(one),
        limits: one.limits.iter().map(|difference| limit_json(one, difference)).collect(),
        advice: advice.pop(),
        further_advice,
    }
}

/// The whole comparison.
pub fn render_comparison_json(compared: &Compared) -> String {
    let Compared { comparison, work, by, declared, notes, is_process } = compared;
    let work = match work {
        Work::Equal { hash, words, outputs_differ } => WorkJson {
            is_equal: Some(true),
            hash: Some(hash),
            outputs_differ: Some(*outputs_differ),
            what: words.join(", "),
        },
        Work::SameCommand(command) => {
            WorkJson { is_equal: None, hash: None, outputs_differ: None, what: command.clone() }
        }
        Work::Unknown(what) => {
            WorkJson { is_equal: Some(false), hash: None, outputs_differ: None, what: what.clone() }
        }
    };
    print(&ComparisonJson {
        format: FORMAT,
        request: &comparison.request,
        is_process: *is_process,
        by,
        work,
        folded: declared.fold.is_some(),
        notes,
        baseline: (&comparison.baseline).into(),
        platforms: comparison.platforms.iter().map(|one| platform_json(one, &comparison.baseline)).collect(),
    })
}

#[derive(Serialize)]
struct SelfTestsJson<'a> {
    format: u32,
    platforms: Vec<SelfTestJson<'a>>,
}

#[derive(Serialize)]
struct SelfTestJson<'a> {
    label: &'a str,
    runs: usize,
    splits: u32,
    different: u32,
    alike: u32,
    metrics: Vec<String>,
    passes: Option<bool>,
}

impl<'a> From<&'a SelfTest> for SelfTestJson<'a> {
    fn from(test: &'a SelfTest) -> Self {
        let SelfTest { label, runs, splits, different, alike, metrics } = test;
        let (runs, splits, different, alike) = (*runs, *splits, *different, *alike);
        let metrics = metrics.iter().map(|(metric, _)| metric.to_string()).collect();
        Self { label, runs, splits, different, alike, metrics, passes: test.passes() }
    }
}

/// Results of self-tests as JSON.
pub fn render_self_test_json(tests: &[SelfTest]) -> String {
    print(&SelfTestsJson { format: FORMAT, platforms: tests.iter().map(SelfTestJson::from).collect() })
}
