//! What platforms are judged by: metrics of a run, each with the difference that would matter.

use super::digest::GroupDigest;

/// A number per run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Requests per second.
    Throughput,
}

/// Requests above a quantile without which it would be the maximum under another name.
const ABOVE: f64 = 10.0;

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 6] =
        [Metric::Mean, Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::Throughput];

    /// As people and options spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Mean => "mean",
            Metric::P50 => "p50",
            Metric::P90 => "p90",
            Metric::P99 => "p99",
            Metric::P999 => "p99.9",
            Metric::Throughput => "throughput",
        }
    }

    /// Of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The relative difference below which nobody cares, unless somebody says otherwise: 2 %, in tails 5 %.
    pub const fn usual_margin(self) -> f64 {
        match self {
            Metric::Mean | Metric::P50 | Metric::Throughput => 0.02,
            Metric::P90 | Metric::P99 | Metric::P999 => 0.05,
        }
    }

    /// A quantile above the median.
    pub fn is_tail(self) -> bool {
        self.quantile().is_some_and(|quantile| quantile > 0.5)
    }

    /// More of it is better.
    pub const fn is_rate(self) -> bool {
        matches!(self, Metric::Throughput)
    }

    const fn quantile(self) -> Option<f64> {
        match self {
            Metric::Mean | Metric::Throughput => None,
            Metric::P50 => Some(0.5),
            Metric::P90 => Some(0.9),
            Metric::P99 => Some(0.99),
            Metric::P999 => Some(0.999),
        }
    }

    /// Requests that each run needs for it.
    pub fn requests_needed(self) -> u64 {
        match self.quantile() {
            None => 1,
            Some(quantile) if quantile <= 0.5 => 1,
            Some(quantile) => (ABOVE / (1.0 - quantile)).round() as u64,
        }
    }

    /// Its value for one run: ns, or requests per second. Never below what can be measured, so that it has a logarithm.
    pub(super) fn of(self, group: &GroupDigest) -> f64 {
        let value = match self.quantile() {
            Some(quantile) => quantile_ns(&group.latencies_ns, quantile),
            None if self.is_rate() => group.throughput_per_s,
            None => group.mean_ns,
        };
        value.max(if self.is_rate() { 1e-9 } else { 1.0 })
    }
}

/// A quantile of sorted values, linear between neighbours (R's type 7, numpy's default), ns; 0 of nothing.
pub(super) fn quantile_ns(sorted: &[u64], quantile: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = quantile * last as f64;
    let below = at.floor();
    let (low, high) = (sorted[below as usize] as f64, sorted[(below as usize + 1).min(last)] as f64);
    low + (high - low) * (at - below)
}
