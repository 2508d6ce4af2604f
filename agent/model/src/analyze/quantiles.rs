//! Quantiles of durations in bounded memory, and the bands of the tail.
//!
//! A histogram of three significant digits: at most 150 KB however many values come. No quantile without
//! enough values: the 90th percentile needs 10, the 99th 100, the 99.9th 1,000.

use hdrhistogram::Histogram;

/// Durations above this (39 hours) are counted as this: quantiles are capped, maxima and sums stay exact.
const LARGEST_NS: u64 = 1 << 47;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A quantile that a duration may exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Band {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
}

impl Band {
    /// All bands, from the lowest to the highest.
    pub const ALL: [Band; 4] = [Band::P50, Band::P90, Band::P99, Band::P999];

    /// The name in columns and attributes: text, because Jaeger searches tags by equality.
    pub const fn name(self) -> &'static str {
        match self {
            Band::P50 => "p50",
            Band::P90 => "p90",
            Band::P99 => "p99",
            Band::P999 => "p99.9",
        }
    }

    const fn quantile(self) -> f64 {
        match self {
            Band::P50 => 0.5,
            Band::P90 => 0.9,
            Band::P99 => 0.99,
            Band::P999 => 0.999,
        }
    }

    /// Values below which the quantile would only be the maximum under another name.
    const fn values_needed(self) -> u64 {
        match self {
            Band::P50 => 1,
            Band::P90 => 10,
            Band::P99 => 100,
            Band::P999 => 1000,
        }
    }
}

/// Statistics of many durations, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Their exact sum.
    pub sum_ns: u128,
    /// The smallest.
    pub min_ns: u64,
    /// The median, within 0.1 %.
    pub p50_ns: u64,
    /// The 90th percentile, from 10 values on.
    pub p90_ns: Option<u64>,
    /// The 99th percentile, from 100 values on.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile, from 1,000 values on.
    pub p999_ns: Option<u64>,
    /// The largest.
    pub max_ns: u64,
}

impl Quantiles {
    /// The exact mean, rounded down to a whole ns.
    pub fn mean_ns(&self) -> u64 {
        (self.sum_ns / u128::from(self.count.max(1))) as u64
    }

    const fn threshold_ns(&self, band: Band) -> Option<u64> {
        match band {
            Band::P50 => Some(self.p50_ns),
            Band::P90 => self.p90_ns,
            Band::P99 => self.p99_ns,
            Band::P999 => self.p999_ns,
        }
    }

    /// The highest band that a duration exceeds.
    pub(super) fn band(&self, duration_ns: u64) -> Option<Band> {
        Band::ALL
            .into_iter()
            .rev()
            .find(|&band| self.threshold_ns(band).is_some_and(|limit| duration_ns > limit))
    }
}

/// The durations from the 25th to the 75th percentile, both included, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MiddleHalf {
    from_ns: u64,
    to_ns: u64,
}

impl MiddleHalf {
    pub(super) fn contains(&self, duration_ns: u64) -> bool {
        // Values in the same bucket of the histogram are on the same side, so the half is never empty.
        let duration_ns = duration_ns.min(LARGEST_NS);
        (self.from_ns..=self.to_ns).contains(&duration_ns)
    }
}

/// Durations as they come.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    histogram: Histogram<u32>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Durations {
    fn default() -> Self {
        let mut histogram =
            Histogram::new(SIGNIFICANT_DIGITS).expect("3 digits are within the crate's 0 to 5");
        histogram.auto(true);
        Self { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Durations {
    pub(super) fn record(&mut self, duration_ns: u64) {
        let value = duration_ns.min(LARGEST_NS);
        self.histogram.record(value).expect("a histogram that resizes itself takes every value up to 2^47");
        self.sum_ns += u128::from(duration_ns);
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        let count = self.count();
        if count == 0 {
            return Quantiles::default();
        }
        let at = |band: Band| (count >= band.values_needed()).then(|| self.value_ns(band.quantile()));
        Quantiles {
            count,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            p50_ns: self.value_ns(Band::P50.quantile()),
            p90_ns: at(Band::P90),
            p99_ns: at(Band::P99),
            p999_ns: at(Band::P999),
            max_ns: self.max_ns,
        }
    }

    pub(super) fn middle_half(&self) -> MiddleHalf {
        let histogram = &self.histogram;
        MiddleHalf {
            from_ns: histogram.lowest_equivalent(histogram.value_at_quantile(0.25)),
            to_ns: histogram.highest_equivalent(histogram.value_at_quantile(0.75)),
        }
    }

    /// The histogram answers with the upper end of a bucket; no value was larger than the largest.
    fn value_ns(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns)
    }
}
