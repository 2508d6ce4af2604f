//! The verdict on a difference between two platforms, given margins that are fixed in advance.
//!
//! Yields a [`Verdict`] per metric and one per platform. An interval that excludes "equal" is not enough for
//! `slower`: the difference has to exceed the margin as well. An interval that includes it is not enough for
//! `equivalent`: the whole interval has to be within the margin.

use super::{
    metric::Metric,
    welch::{Difference, Interval, holm, logs, pooled_sd, shift},
};

/// Runs of a platform without which nothing is said.
pub const ENOUGH_RUNS: usize = 5;
/// Runs of a platform that an experiment should have.
pub const GOOD_RUNS: usize = 10;
/// Probability of calling equal platforms different, over all metrics and platforms of a comparison.
const LEVEL: f64 = 0.05;
/// 2 * (1.96 + 0.84)^2: runs per platform that find a difference of one standard deviation in 80 of 100
/// experiments.
const POWER: f64 = 15.7;

/// Verdict on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fewer than [`ENOUGH_RUNS`] on one side.
    TooFewRuns,
    /// Latencies change from start to end of the runs: they have no one value.
    Drift,
    /// Surely different, and by more than the margin; `clearly` if the whole interval lies beyond it.
    Slower {
        /// The whole interval lies beyond the margin.
        clearly: bool,
    },
    /// The same on the other side.
    Faster {
        /// The whole interval lies beyond the margin.
        clearly: bool,
    },
    /// Surely different, and surely by less than the margin.
    Negligible,
    /// Surely not different by more than the margin.
    Equivalent,
    /// None of the other verdicts.
    Inconclusive {
        /// Runs of each platform with which a difference as large as the margin would be found in 80 of 100
        /// experiments.
        runs_needed: u64,
    },
}

impl Verdict {
    /// The word for people and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::TooFewRuns => "too few runs",
            Verdict::Drift => "drift",
            Verdict::Slower { .. } => "slower",
            Verdict::Faster { .. } => "faster",
            Verdict::Negligible => "negligible",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive { .. } => "inconclusive",
        }
    }

    /// Whether the platforms differ by more than the margin.
    pub const fn is_difference(self) -> bool {
        matches!(self, Verdict::Slower { .. } | Verdict::Faster { .. })
    }
}

/// One metric of one platform against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The metric.
    pub metric: Metric,
    /// Mean over the baseline's runs, ns or 1/s.
    pub baseline: f64,
    /// Mean over the platform's runs.
    pub value: f64,
    /// The platform's value as a multiple of the baseline's, by the means of the logarithms.
    pub ratio: Interval,
    /// Hodges and Lehmann's shift between runs, in the metric's unit.
    pub shift: f64,
    /// The relative difference that matters.
    pub margin: f64,
    /// Welch's probability of such a difference by chance; none below two runs a side.
    pub probability: Option<f64>,
    /// The same, raised for the number of metrics and platforms (Holm).
    pub adjusted: Option<f64>,
    /// Probability of the difference if the runs are assigned at random, which assumes no distribution.
    pub permutation: Option<f64>,
    /// Probability of such values if the platforms differed by the margin or more.
    pub not_equivalent: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares two samples of a metric, one value per run, as far as possible without the results of other
/// tests.
pub(super) fn measure(metric: Metric, margin: f64, baseline: &[f64], values: &[f64]) -> Judged {
    let (first, second) = (logs(baseline), logs(values));
    let mean = super::welch::mean;
    let difference = Difference::of(&first, &second);
    let ratio = Interval::between(&first, &second).map(f64::exp);
    let (below, above) = limits(margin);
    Judged {
        metric,
        baseline: mean(baseline),
        value: mean(values),
        ratio,
        shift: shift(baseline, values),
        margin,
        probability: difference.map(|difference| difference.probability()),
        adjusted: None,
        permutation: None,
        not_equivalent: difference.map(|difference| difference.probability_outside(-below, above)),
        verdict: inconclusive(&first, &second, margin),
    }
}

/// The margin as logarithms: as far down as up, by ratio.
fn limits(margin: f64) -> (f64, f64) {
    (-(1.0 + margin).ln(), (1.0 + margin).ln())
}

fn inconclusive(first: &[f64], second: &[f64], margin: f64) -> Verdict {
    let relative = pooled_sd(first, second).unwrap_or(0.0) / limits(margin).1.max(f64::MIN_POSITIVE);
    let needed = (POWER * relative * relative).ceil().min(1e9) as u64;
    let have = first.len().min(second.len()) as u64;
    Verdict::Inconclusive { runs_needed: needed.max(have + 1).max(ENOUGH_RUNS as u64) }
}

/// Fills in what depends on the whole family: adjusted probabilities, then verdicts. For each member, `runs`
/// of the smaller side and whether either side drifts.
pub(super) fn decide(family: &mut [(&mut Judged, usize, bool)]) {
    let known: Vec<f64> = family.iter().filter_map(|(judged, ..)| judged.probability).collect();
    let mut adjusted = holm(&known).into_iter();
    for (judged, runs, drift) in family {
        judged.adjusted = judged.probability.and_then(|_| adjusted.next());
        judged.verdict = judged.decided(*runs, *drift);
    }
}

impl Judged {
    fn decided(&self, runs: usize, drift: bool) -> Verdict {
        if runs < ENOUGH_RUNS {
            return Verdict::TooFewRuns;
        }
        if drift {
            return Verdict::Drift;
        }
        let (below, above) = limits(self.margin);
        let (low, high) = (self.ratio.low.map_or(0.0, f64::ln), self.ratio.high.map_or(0.0, f64::ln));
        let value = self.ratio.value.ln();
        let differs = self.adjusted.is_some_and(|probability| probability < LEVEL);
        let is_within = low > below && high < above;
        match (differs, value > above, value < below) {
            (true, true, _) => self.beyond(true, low > above),
            (true, _, true) => self.beyond(false, high < below),
            (true, false, false) if is_within => Verdict::Negligible,
            (_, false, false) if self.not_equivalent.is_some_and(|probability| probability < LEVEL) => {
                Verdict::Equivalent
            }
            _ => self.verdict,
        }
    }

    const fn beyond(&self, more: bool, clearly: bool) -> Verdict {
        if more == self.metric.is_rate() { Verdict::Faster { clearly } } else { Verdict::Slower { clearly } }
    }
}

/// Verdict on a platform from those on its metrics. `Equivalent` needs no correction for their number, since
/// each of them has to be.
pub(super) fn overall(judged: &[Judged]) -> Overall {
    let any = |wanted: fn(Verdict) -> bool| judged.iter().any(|one| wanted(one.verdict));
    let slower = any(|verdict| matches!(verdict, Verdict::Slower { .. }));
    let faster = any(|verdict| matches!(verdict, Verdict::Faster { .. }));
    let settled = |verdict: Verdict| matches!(verdict, Verdict::Equivalent | Verdict::Negligible);
    match (slower, faster) {
        (true, true) => Overall::Mixed,
        (true, false) => Overall::Slower,
        (false, true) => Overall::Faster,
        (false, false) if any(|verdict| verdict == Verdict::TooFewRuns) => Overall::TooFewRuns,
        (false, false) if any(|verdict| verdict == Verdict::Drift) => Overall::Drift,
        (false, false) if judged.iter().all(|one| one.verdict == Verdict::Equivalent) => Overall::Equivalent,
        (false, false) if judged.iter().all(|one| settled(one.verdict)) => Overall::Negligible,
        (false, false) => Overall::Inconclusive,
    }
}

/// Verdict on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overall {
    /// Slower by a metric, faster by none.
    Slower,
    /// Faster by a metric, slower by none.
    Faster,
    /// Slower by one, faster by another.
    Mixed,
    /// Equivalent by all.
    Equivalent,
    /// Either equivalent or negligible in each metric.
    Negligible,
    /// Nothing of this.
    Inconclusive,
    /// Too few runs.
    TooFewRuns,
    /// The runs drift.
    Drift,
}

impl Overall {
    /// The word for people and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Overall::Slower => "slower",
            Overall::Faster => "faster",
            Overall::Mixed => "mixed",
            Overall::Equivalent => "equivalent",
            Overall::Negligible => "negligible",
            Overall::Inconclusive => "inconclusive",
            Overall::TooFewRuns => "too few runs",
            Overall::Drift => "drift",
        }
    }
}
