//! What a comparison yields, as plain data.

use super::{
    causes::Decomposition,
    counts::{Cost, CountChange},
    gpu_means::GpuDifference,
    limits::LimitDifference,
    verdict::{Judged, Overall},
    welch::Interval,
};
use crate::untrusted::Untrusted;

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
    pub costs: Vec<Cost>,
    /// Events per request.
    pub counts: Vec<CountChange>,
    /// How much more time I/Os spent in queues of devices and in devices, ns per request; it sums over those
    /// that ran at the same time.
    pub device_ns: f64,
    /// How much longer the way to peers and back took at least, by the round trips that TCP measured, ns per
    /// request.
    pub round_trip_ns: f64,
    /// What GPUs did for requests, if both sides recorded it of enough of them.
    pub gpu: Option<GpuDifference>,
    /// Quantile by quantile.
    pub curve: Vec<CurvePoint>,
    /// Limits that differ from the baseline's.
    pub limits: Vec<LimitDifference>,
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
