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
mod compared;
mod counts;
mod digest;
mod gpu;
mod gpu_means;
mod kept;
mod limited;
mod limits;
mod metric;
mod picked;
mod platform;
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
pub use gpu_means::{GpuCause, GpuDifference, GpuDigest, GpuMeans, GpuSide};
pub use limits::{LimitDifference, PlatformLimit};
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
    welch::{logs, mean},
};
use crate::{phase::Metric as Counted, untrusted::Untrusted};

pub use self::{
    compared::{Compared, Comparison, CurvePoint, Side, TailDifference},
    platform::{Declared, Platform, Run},
};

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
    let requests = [baseline, platform].map(Platform::requests);
    let more = |metrics: &[Counted]| platform.counted(metrics) - baseline.counted(metrics);
    Compared {
        side: platform.side(),
        judged: verdicts.judged.into_iter().map(check).collect(),
        overall: verdicts.overall,
        interleaved: took_turns(baseline, platform),
        // Folded accounts hold what no event counted.
        costs: if fold.is_some() { Vec::new() } else { counts::costs(&mean, &counts, requests) },
        mean,
        tail: tail(baseline, platform, sampled),
        counts,
        device_ns: more(&[Counted::BlockQueue, Counted::BlockDevice]),
        round_trip_ns: more(&[Counted::NetRoundTrip]),
        gpu: GpuDifference::of(baseline, platform),
        curve: curve(baseline, platform),
        limits: LimitDifference::all(&baseline.limits, &platform.limits),
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
