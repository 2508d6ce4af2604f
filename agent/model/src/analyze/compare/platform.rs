//! What is compared, as plain data: the runs of a platform, and what was declared about the comparison.

use super::{
    compared::Side,
    counts::Common,
    digest::GroupDigest,
    limits::PlatformLimit,
    metric::Metric,
    verdict::ENOUGH_RUNS,
    welch::{Difference, mean},
};
use crate::phase::Metric as Counted;

/// Drift: from here on a certain change between the first and last third of a platform's runs counts.
pub(super) const DRIFT: f64 = 0.05;

/// Drift is certain below this probability of chance.
pub(super) const CERTAIN: f64 = 0.01;

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
    /// What limited them, a value for each kind; empty if that is not known.
    pub limits: Vec<PlatformLimit>,
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

impl Platform {
    pub(super) fn values(&self, metric: Metric) -> Vec<f64> {
        self.runs.iter().map(|run| metric.of(&run.requests)).collect()
    }

    pub(super) fn digests(&self) -> Vec<&GroupDigest> {
        self.runs.iter().map(|run| &run.requests).collect()
    }

    /// Requests of all runs.
    pub(super) fn requests(&self) -> u64 {
        self.runs.iter().map(|run| run.requests.latencies_ns.len() as u64).sum()
    }

    /// Sum of these counts per request, as a mean over runs.
    pub(super) fn counted(&self, metrics: &[Counted]) -> f64 {
        let of = |run: &Run| metrics.iter().map(|metric| run.requests.counts[*metric as usize]).sum();
        mean(&self.runs.iter().map(of).collect::<Vec<f64>>())
    }

    /// Requests of the run that has fewest.
    pub fn fewest_requests(&self) -> u64 {
        self.runs.iter().map(|run| run.requests.latencies_ns.len() as u64).min().unwrap_or(0)
    }

    pub(super) fn side(&self) -> Side {
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

    pub(super) fn is_sampled(&self) -> bool {
        let any = |run: &Run| {
            run.requests
                .profile
                .phases
                .iter()
                .any(|(_, means)| means.sampled.iter().chain([&means.own_code]).any(|&ns| ns > 0.0))
        };
        self.runs.iter().all(any)
    }

    pub(super) fn fold(&self) -> Self {
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
