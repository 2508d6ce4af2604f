//! Compares platforms: a verdict per metric, and its causes. Pure: digests of runs in, [`Comparison`] out.
//!
//! The protocol (each file gives the reason for its step): the run is the unit of replication ([`welch`]); a
//! verdict needs a margin that is fixed in advance ([`verdict`]); the family of all declared metrics and
//! platforms shares one level of 5 %; means and tails are decomposed exactly ([`causes`]), and differences in
//! the number of events are separated from differences in their price ([`counts`]).

mod advised;
mod breakdown;
mod causes;
mod chance;
mod counts;
mod digest;
mod kept;
mod metric;
mod picked;
mod profile;
mod self_test;
mod student;
mod verdict;
mod welch;
mod work;

#[cfg(test)]
mod tests;

pub use advised::Advised;
pub use breakdown::{Breakdown, Quantile, Share, breakdowns};
pub use causes::{Decomposition, OfCause, Part};
pub use counts::{Common, Cost, CountChange};
pub use digest::{GroupDigest, MOST_WARMUP, RunDigest, TAILS, Tail, Warmup};
pub use metric::Metric;
pub use picked::{Pick, Picked, is_told_by, latency_ns};
pub use profile::{Path, Profile};
pub use self_test::{SPLITS, SelfTest};
pub use verdict::{ENOUGH_RUNS, GOOD_RUNS, Judged, Overall, Verdict};
pub use welch::Interval;
pub use work::Work;

use self::{
    causes::Sample,
    chance::permutation_probability,
    verdict::{decide, measure, overall},
    welch::{Difference, logs, mean},
};
use crate::untrusted::Untrusted;

/// Drift: from here on a certain change between the first and last third of a platform's runs counts.
const DRIFT: f64 = 0.05;
/// Drift is certain below this probability of chance.
const CERTAIN: f64 = 0.01;

/// One run of a platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Start, ns since 1970: shows whether the platforms alternated.
    pub start_ns: u64,
    /// A program executed the guest's instructions, no processor: what it cost is that program's.
    pub is_emulated: bool,
    /// The compared requests of the run.
    pub requests: GroupDigest,
}

/// All runs of one platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Name in reports.
    pub label: String,
    /// In any order.
    pub runs: Vec<Run>,
}

/// Metrics to compare, with their margins.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Metrics with the relative difference that matters for each.
    pub metrics: Vec<(Metric, f64)>,
    /// Nobody declared these metrics: only the first tail metric that both platforms support is judged.
    pub is_usual: bool,
    /// Give verdicts on runs that drift, too.
    pub allow_drift: bool,
    /// Fidelities differ: compare `cpu`, `runq`, `other`, and of the counts what all runs have.
    pub fold: Option<Common>,
}

/// The slowest requests of both platforms.
#[derive(Clone, Debug, PartialEq)]
pub struct TailDifference {
    /// The requests lie above this quantile of each run.
    pub quantile: f64,
    /// Decomposition of the difference of their means.
    pub decomposition: Decomposition,
}

/// The ratio of both platforms at one quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Quantile, from 0 to 1.
    pub quantile: f64,
    /// Latency of the baseline, ns.
    pub baseline_ns: f64,
    /// The platform's latency as a multiple of the baseline's.
    pub ratio: Interval,
}

/// Summary of one platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Name of the platform.
    pub label: String,
    /// Number of its runs.
    pub runs: usize,
    /// Number of emulated runs.
    pub emulated: usize,
    /// Fewest and most requests in one of them.
    pub requests: (u64, u64),
    /// Requests left out at the start, over all runs.
    pub warmup: u64,
    /// Change from the first to the last third of its runs, as a factor less one; none if it cannot be
    /// determined.
    pub drift: Option<f64>,
    /// The drift is certain, and more than 5 %.
    pub drifts: bool,
    /// Mean correlation of a latency with the next one.
    pub autocorrelation: Option<f64>,
}

/// One platform against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Summary of the platform.
    pub side: Side,
    /// Metric by metric, in the order in which they were declared.
    pub judged: Vec<Judged>,
    /// Verdict over all metrics.
    pub overall: Overall,
    /// Whether runs of both platforms alternated; if not, a change of the machine may look like a difference.
    pub interleaved: bool,
    /// Parts of the difference between the mean latencies.
    pub mean: Decomposition,
    /// The same of the slowest requests, if there are enough.
    pub tail: Option<TailDifference>,
    /// Number and price behind the causes of the mean.
    pub costs: Vec<(super::Cause, Cost)>,
    /// Events per request.
    pub counts: Vec<CountChange>,
    /// Quantile by quantile.
    pub curve: Vec<CurvePoint>,
}

/// All platforms against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Name of the requests.
    pub request: Untrusted,
    /// The baseline.
    pub baseline: Side,
    /// The others, in their order.
    pub platforms: Vec<Compared>,
}

impl Compared {
    /// The difference that explains the verdict: that of the means if it has the same direction, else that of
    /// the slowest requests, with their quantile; none if neither has the verdict's direction.
    pub fn explained(&self) -> Option<(&Decomposition, Option<f64>)> {
        let goes_its_way = |decomposition: &Decomposition| match self.overall {
            Overall::Slower => decomposition.difference_ns.value > 0.0,
            Overall::Faster => decomposition.difference_ns.value < 0.0,
            Overall::Mixed
            | Overall::Equivalent
            | Overall::Negligible
            | Overall::Inconclusive
            | Overall::TooFewRuns
            | Overall::Drift => true,
        };
        // A mean that hardly moved does not explain a tail that did.
        let only_tails = self.judged.iter().any(|judged| judged.verdict.is_difference())
            && self.judged.iter().all(|judged| judged.metric.is_tail() || !judged.verdict.is_difference());
        let mean = Some((&self.mean, None)).filter(|(mean, _)| goes_its_way(mean));
        let tail = self.tail.as_ref().map(|tail| (&tail.decomposition, Some(tail.quantile)));
        let tail = tail.filter(|(tail, _)| goes_its_way(tail));
        if only_tails { tail.or(mean) } else { mean.or(tail) }
    }
}

impl Platform {
    fn values(&self, metric: Metric) -> Vec<f64> {
        self.runs.iter().map(|run| metric.of(&run.requests)).collect()
    }

    fn digests(&self) -> Vec<&GroupDigest> {
        self.runs.iter().map(|run| &run.requests).collect()
    }

    /// Requests of the run that has fewest.
    pub fn fewest_requests(&self) -> u64 {
        self.runs.iter().map(|run| run.requests.latencies_ns.len() as u64).min().unwrap_or(0)
    }

    fn side(&self) -> Side {
        let counts = || self.runs.iter().map(|run| run.requests.latencies_ns.len() as u64);
        let drifts: Vec<f64> = self.runs.iter().filter_map(|run| run.requests.drift).collect();
        let drift = (!drifts.is_empty()).then(|| mean(&drifts).exp() - 1.0);
        let certain = Difference::from_zero(&drifts)
            .is_some_and(|difference| drifts.len() >= ENOUGH_RUNS && difference.probability() < CERTAIN);
        let correlations: Vec<f64> =
            self.runs.iter().filter_map(|run| run.requests.autocorrelation).collect();
        Side {
            label: self.label.clone(),
            runs: self.runs.len(),
            emulated: self.runs.iter().filter(|run| run.is_emulated).count(),
            requests: (counts().min().unwrap_or(0), counts().max().unwrap_or(0)),
            warmup: self.runs.iter().map(|run| run.requests.warmup).sum(),
            drift,
            drifts: certain && drift.is_some_and(|drift| drift.abs() > DRIFT),
            autocorrelation: (!correlations.is_empty()).then(|| mean(&correlations)),
        }
    }

    fn is_sampled(&self) -> bool {
        let any = |run: &Run| {
            run.requests
                .profile
                .phases
                .iter()
                .any(|(_, means)| means.sampled.iter().chain([&means.own_code]).any(|&ns| ns > 0.0))
        };
        self.runs.iter().all(any)
    }

    fn fold(&self) -> Self {
        let mut folded = self.clone();
        for run in &mut folded.runs {
            run.requests.profile.fold();
            for tail in &mut run.requests.tails {
                tail.profile.fold();
            }
        }
        folded
    }
}

impl Declared {
    /// The metrics for which both platforms have enough requests, with their margins.
    pub fn of(&self, first: &Platform, second: &Platform) -> Vec<(Metric, f64)> {
        let fewest = first.fewest_requests().min(second.fewest_requests());
        let mut metrics = self.metrics.clone();
        if self.is_usual {
            metrics.retain(|(metric, _)| fewest >= metric.requests_needed());
            let tail = metrics.iter().position(|(metric, _)| metric.is_tail());
            metrics.truncate(tail.map_or(usize::MAX, |tail| tail + 1));
        }
        metrics
    }
}

/// Compares platforms with a baseline. All runs are of the same work and of the same kind of request.
pub fn compare(baseline: &Platform, platforms: &[Platform], declared: &Declared) -> Comparison {
    let folded: Option<(Platform, Vec<Platform>)> =
        declared.fold.map(|_| (baseline.fold(), platforms.iter().map(Platform::fold).collect()));
    let (baseline, platforms) =
        folded.as_ref().map_or((baseline, platforms), |(baseline, platforms)| (baseline, platforms));
    let compared = platforms
        .iter()
        .zip(verdicts(baseline, platforms, declared))
        .map(|(platform, verdicts)| against(baseline, platform, verdicts, declared.fold))
        .collect();
    let request = baseline.runs.first().map_or_else(|| Untrusted::from(""), |run| run.requests.name.clone());
    Comparison { request, baseline: baseline.side(), platforms: compared }
}

/// Results for one platform.
#[derive(Clone, Debug)]
struct Verdicts {
    judged: Vec<Judged>,
    overall: Overall,
}

/// The verdicts on all platforms, which share one level.
fn verdicts(baseline: &Platform, platforms: &[Platform], declared: &Declared) -> Vec<Verdicts> {
    let judge = |platform: &Platform, &(metric, margin): &(Metric, f64)| {
        measure(metric, margin, &baseline.values(metric), &platform.values(metric))
    };
    let mut all: Vec<Vec<Judged>> = platforms
        .iter()
        .map(|platform| {
            declared.of(baseline, platform).iter().map(|metric| judge(platform, metric)).collect()
        })
        .collect();
    let side = baseline.side();
    let mut family = Vec::new();
    for (judged, platform) in all.iter_mut().zip(platforms) {
        let other = platform.side();
        let drifts = !declared.allow_drift && (other.drifts || side.drifts);
        family.extend(judged.iter_mut().map(|judged| (judged, other.runs.min(side.runs), drifts)));
    }
    decide(&mut family);
    all.into_iter().map(|judged| Verdicts { overall: overall(&judged), judged }).collect()
}

fn against(baseline: &Platform, platform: &Platform, verdicts: Verdicts, fold: Option<Common>) -> Compared {
    let check = |judged: Judged| {
        let metric = judged.metric;
        let permutation =
            permutation_probability(&logs(&baseline.values(metric)), &logs(&platform.values(metric)));
        Judged { permutation, ..judged }
    };
    let sampled = baseline.is_sampled() && platform.is_sampled();
    let mean = Decomposition::of(&whole(baseline), &whole(platform), sampled);
    let counts = counts::changes(&baseline.digests(), &platform.digests(), fold);
    Compared {
        side: platform.side(),
        judged: verdicts.judged.into_iter().map(check).collect(),
        overall: verdicts.overall,
        interleaved: took_turns(baseline, platform),
        // Folded accounts hold what no event counted.
        costs: if fold.is_some() { Vec::new() } else { counts::costs(&mean, &counts) },
        mean,
        tail: tail(baseline, platform, sampled),
        counts,
        curve: curve(baseline, platform),
    }
}

fn whole(platform: &Platform) -> Vec<Sample<'_>> {
    platform
        .runs
        .iter()
        .map(|run| Sample { mean_ns: run.requests.mean_ns, profile: &run.requests.profile })
        .collect()
}

/// The slowest hundredth, or tenth, whichever all runs have.
fn tail(baseline: &Platform, platform: &Platform, sampled: bool) -> Option<TailDifference> {
    let of = |platform: &'_ Platform, quantile: f64| -> Option<Vec<(f64, Profile)>> {
        let tail = |run: &Run| {
            let found = run.requests.tails.iter().find(|tail| tail.quantile.total_cmp(&quantile).is_eq())?;
            Some((found.mean_ns, found.profile.clone()))
        };
        platform.runs.iter().map(tail).collect()
    };
    TAILS.into_iter().rev().find_map(|quantile| {
        let (first, second) = (of(baseline, quantile)?, of(platform, quantile)?);
        let decomposition = Decomposition::of(&samples(&first), &samples(&second), sampled);
        Some(TailDifference { quantile, decomposition })
    })
}

fn samples(tails: &[(f64, Profile)]) -> Vec<Sample<'_>> {
    tails.iter().map(|(mean_ns, profile)| Sample { mean_ns: *mean_ns, profile }).collect()
}

/// The order of runs changes sides at least half as often as the smaller side has runs: shuffled rounds do
/// so, blocks with a few runs on the wrong side do not.
fn took_turns(first: &Platform, second: &Platform) -> bool {
    let mut order: Vec<(u64, bool)> = first.runs.iter().map(|run| (run.start_ns, false)).collect();
    order.extend(second.runs.iter().map(|run| (run.start_ns, true)));
    order.sort_unstable();
    let changes = order.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let fewer = first.runs.len().min(second.runs.len());
    changes > 1 && changes >= fewer.div_ceil(2)
}

/// Quantiles from the 1st to the 99th percentile, as far as each run has requests beyond them.
fn curve(baseline: &Platform, platform: &Platform) -> Vec<CurvePoint> {
    let fewest = baseline.fewest_requests().min(platform.fewest_requests()) as f64;
    let percentiles = (1..=99).map(|percent| f64::from(percent) / 100.0).chain([0.999]);
    percentiles
        .filter(|quantile| quantile.min(1.0 - quantile) * fewest >= 2.0)
        .map(|quantile| {
            let values = |platform: &Platform| -> Vec<f64> {
                let of = |run: &Run| metric::quantile_ns(&run.requests.latencies_ns, quantile).max(1.0);
                platform.runs.iter().map(of).collect()
            };
            let (first, second) = (values(baseline), values(platform));
            let ratio = Interval::between(&logs(&first), &logs(&second)).map(f64::exp);
            CurvePoint { quantile, baseline_ns: mean(&first), ratio }
        })
        .collect()
}
