//! Metrics by which platforms are compared, each with its default margin.

use std::fmt::{Display, Formatter, Result};

use super::digest::GroupDigest;

/// A number per run. Shown as people and options spell it: `mean`, `p99.9`, `throughput`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Mean latency.
    Mean,
    /// A percentile of latencies.
    Percentile(Percentile),
    /// Requests per second.
    Throughput,
}

/// Above 0 and below 100 %, in steps of a ten-thousandth of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percentile(u32);

/// Steps in one percent.
const STEPS: u32 = 10_000;
/// Requests beyond a quantile without which it would be the maximum, or the minimum, under another name.
const BEYOND: f64 = 10.0;

impl Percentile {
    /// `99`, `99.9`: at most four digits after the point.
    fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || whole.len() > 2 || part.len() > 4 {
            return None;
        }
        let steps = whole.parse::<u32>().ok()? * STEPS + format!("{part:0<4}").parse::<u32>().ok()?;
        (steps > 0).then_some(Self(steps))
    }

    fn of_one(self) -> f64 {
        f64::from(self.0) / f64::from(100 * STEPS)
    }
}

impl Display for Percentile {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let part = format!("{:04}", self.0 % STEPS);
        let (whole, part) = (self.0 / STEPS, part.trim_end_matches('0'));
        if part.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{part}") }
    }
}

impl Metric {
    /// Median latency.
    pub const P50: Metric = Metric::Percentile(Percentile(50 * STEPS));
    /// 90th percentile.
    pub const P90: Metric = Metric::Percentile(Percentile(90 * STEPS));
    /// 99th percentile.
    pub const P99: Metric = Metric::Percentile(Percentile(99 * STEPS));
    /// Metrics where none are declared: of the last two, the first for which there are requests enough.
    pub const USUAL: [Metric; 4] = [Metric::Mean, Metric::P50, Metric::P99, Metric::P90];

    /// The usual metric of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "mean" => Some(Metric::Mean),
            "throughput" => Some(Metric::Throughput),
            name => name.strip_prefix('p').and_then(Percentile::parse).map(Metric::Percentile),
        }
    }

    /// Default margin: the largest relative difference that does not matter: 2 %, in tails 5 %.
    pub fn usual_margin(self) -> f64 {
        if self.is_tail() { 0.05 } else { 0.02 }
    }

    /// A quantile above the median.
    pub fn is_tail(self) -> bool {
        self.quantile().is_some_and(|quantile| quantile > 0.5)
    }

    /// More of it is better.
    pub const fn is_rate(self) -> bool {
        matches!(self, Metric::Throughput)
    }

    fn quantile(self) -> Option<f64> {
        match self {
            Metric::Mean | Metric::Throughput => None,
            Metric::Percentile(percentile) => Some(percentile.of_one()),
        }
    }

    /// Requests that each run needs for this metric.
    pub fn requests_needed(self) -> u64 {
        if self == Metric::P50 {
            return 1;
        }
        self.quantile().map_or(1, |quantile| (BEYOND / quantile.min(1.0 - quantile)).round() as u64)
    }

    /// The metric of one run: ns, or requests per second. Positive, so that it has a logarithm.
    pub(super) fn of(self, group: &GroupDigest) -> f64 {
        let value = match self {
            Metric::Percentile(percentile) => quantile_ns(&group.latencies_ns, percentile.of_one()),
            Metric::Throughput => group.throughput_per_s,
            Metric::Mean => group.mean_ns,
        };
        value.max(if self.is_rate() { 1e-9 } else { 1.0 })
    }
}

impl Display for Metric {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Metric::Mean => f.write_str("mean"),
            Metric::Percentile(percentile) => write!(f, "p{percentile}"),
            Metric::Throughput => f.write_str("throughput"),
        }
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Metric;

    #[rstest]
    #[case("mean", "mean", 1)]
    #[case("throughput", "throughput", 1)]
    #[case("p50", "p50", 1)]
    #[case("p050.0", "", 0)]
    #[case("p50.00", "p50", 1)]
    #[case("p05", "p5", 200)]
    #[case("p95", "p95", 200)]
    #[case("p99.9", "p99.9", 10_000)]
    #[case("p99.9999", "p99.9999", 10_000_000)]
    #[case("p0.25", "p0.25", 4_000)]
    #[case("p99.99999", "", 0)]
    #[case("p0", "", 0)]
    #[case("p100", "", 0)]
    #[case("p.5", "", 0)]
    #[case("p5.", "", 0)]
    #[case("p-5", "", 0)]
    #[case("p+5", "", 0)]
    #[case("p\u{665}", "", 0)]
    #[case("p", "", 0)]
    #[case("", "", 0)]
    #[case("Mean", "", 0)]
    fn names(#[case] text: &str, #[case] expected: &str, #[case] needed: u64) {
        let metric = Metric::by_name(text);
        let name = metric.map(|metric| metric.to_string());
        assert_eq!(name.as_deref().unwrap_or(""), expected);
        assert_eq!(metric.map_or(0, Metric::requests_needed), needed);
    }

    #[test]
    fn constants_are_what_their_names_say() {
        for metric in [Metric::P50, Metric::P90, Metric::P99] {
            assert_eq!(Metric::by_name(&metric.to_string()), Some(metric));
        }
        assert_eq!([Metric::P50, Metric::P90].map(Metric::is_tail), [false, true]);
    }
}
