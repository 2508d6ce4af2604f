//! Two samples of runs: the difference of their means, its confidence interval, and its p-value.
//!
//! Welch's test holds its level from five runs on, whatever the variances: resampling needs ten, and pooling
//! requests calls equal platforms different in a third to all of the cases, as soon as runs differ by 2 %
//! (simulated, see ARCHITECTURE.md). So each run is one value here.

use super::student::{above, critical, two_sided};

/// An estimate and the interval that covers the true value in 95 of 100 experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end; none where there are too few runs for any.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// An estimate without an interval.
    pub(super) const fn bare(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// The second sample's mean less the first one's; a bare one where either has one value only.
    pub(super) fn between(first: &[f64], second: &[f64]) -> Self {
        let bare = || Self::bare(mean(second) - mean(first));
        Difference::of(first, second).map_or_else(bare, |difference| difference.interval())
    }

    /// The interval under an increasing function.
    pub(super) fn map(self, grow: impl Fn(f64) -> f64) -> Self {
        Self { value: grow(self.value), low: self.low.map(&grow), high: self.high.map(&grow) }
    }

    /// Whether both ends lie on the same side of this value.
    pub fn excludes(&self, value: f64) -> bool {
        self.low.is_some_and(|low| low > value) || self.high.is_some_and(|high| high < value)
    }
}

impl From<f64> for Interval {
    fn from(value: f64) -> Self {
        Self::bare(value)
    }
}

/// The difference between two means: the second less the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) value: f64,
    /// Standard error of the difference.
    error: f64,
    df: f64,
}

/// Mean and sample variance; the variance of one value is none.
fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (values.len() > 1).then(|| squares / (count - 1.0)))
}

/// Logarithm of each value: ratios become differences.
pub(super) fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

/// The mean; 0 of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    moments(values).0
}

/// Standard deviation about the sample means, pooled over both samples; none below three values.
pub(super) fn pooled_sd(first: &[f64], second: &[f64]) -> Option<f64> {
    let freedom = |values: &[f64]| values.len().saturating_sub(1) as f64;
    let squares = |values: &[f64]| moments(values).1.map_or(0.0, |variance| variance * freedom(values));
    let df = freedom(first) + freedom(second);
    (df >= 1.0).then(|| ((squares(first) + squares(second)) / df).sqrt())
}

impl Difference {
    /// The difference of two samples of at least two values each; none otherwise.
    pub(super) fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        let ((first_mean, first_variance), (second_mean, second_variance)) =
            (moments(first), moments(second));
        let (a, b) = (first_variance? / first.len() as f64, second_variance? / second.len() as f64);
        let freedom = |part: f64, values: &[f64]| part * part / (values.len() as f64 - 1.0);
        let spread = freedom(a, first) + freedom(b, second);
        // Without any variance every difference is certain; the degrees of freedom do not matter then.
        let df = if spread > 0.0 { (a + b) * (a + b) / spread } else { 1.0 };
        Some(Self { value: second_mean - first_mean, error: (a + b).sqrt(), df })
    }

    /// The difference of one sample's mean from zero.
    pub(super) fn from_zero(values: &[f64]) -> Option<Self> {
        let (mean, variance) = moments(values);
        let error = (variance? / values.len() as f64).sqrt();
        Some(Self { value: mean, error, df: values.len() as f64 - 1.0 })
    }

    fn t(&self, less: f64) -> f64 {
        match self.value - less {
            0.0 => 0.0,
            left => left / self.error,
        }
    }

    /// The interval with 95 % confidence.
    pub(super) fn interval(&self) -> Interval {
        self.with_confidence(0.95)
    }

    pub(super) fn with_confidence(&self, confidence: f64) -> Interval {
        let reach = if self.error > 0.0 { critical(1.0 - confidence, self.df) * self.error } else { 0.0 };
        Interval { value: self.value, low: Some(self.value - reach), high: Some(self.value + reach) }
    }

    /// Probability of so large a difference, either way, if there were none.
    pub(super) fn probability(&self) -> f64 {
        two_sided(self.t(0.0), self.df)
    }

    /// Two one-sided tests: the larger of the two probabilities that the true difference lies outside
    /// `-below..above`.
    pub(super) fn probability_outside(&self, below: f64, above_zero: f64) -> f64 {
        let too_low = above(self.t(-below), self.df);
        let too_high = above(-self.t(above_zero), self.df);
        too_low.max(too_high)
    }
}

/// Holm's adjusted probabilities, to compare with one level: each at least as large as that of any smaller
/// one.
pub(super) fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        largest = largest.max((probabilities[index] * factor).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// Hodges and Lehmann's shift: the median of all differences of a second sample's value and a first one's.
pub(super) fn shift(first: &[f64], second: &[f64]) -> f64 {
    let mut all: Vec<f64> = second.iter().flat_map(|b| first.iter().map(move |a| b - a)).collect();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        count if count % 2 == 1 => all[count / 2],
        count => f64::midpoint(all[count / 2 - 1], all[count / 2]),
    }
}
