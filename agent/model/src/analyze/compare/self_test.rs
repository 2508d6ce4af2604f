//! Does the comparison find false differences? Halves of one platform, dealt at random, must look alike.

use super::{
    Metric,
    chance::Chance,
    platform::{Declared, Platform},
    verdict::{ENOUGH_RUNS, Verdict, decide, measure},
};

/// Ways to deal that are tried.
pub const SPLITS: u32 = 1_000;

/// Result of comparing random halves of one platform.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfTest {
    /// The platform.
    pub label: String,
    /// Its runs.
    pub runs: usize,
    /// Ways to deal that were tried; 0 if there are too few runs for two halves.
    pub splits: u32,
    /// In how many of them some declared metric was called slower or faster: some 5 % at most if all is well.
    pub different: u32,
    /// In how many of them all metrics were called equivalent or negligibly different.
    pub alike: u32,
    /// By which metrics, with their margins.
    pub metrics: Vec<(Metric, f64)>,
}

impl SelfTest {
    /// Deals the runs to two halves, again and again.
    pub fn of(platform: &Platform, declared: &Declared, seed: u64) -> Self {
        let runs = platform.runs.len();
        let metrics = declared.of(platform, platform);
        let label = platform.label.clone();
        let mut test = Self { label, runs, splits: 0, different: 0, alike: 0, metrics };
        if runs < 2 * ENOUGH_RUNS {
            return test;
        }
        let values: Vec<Vec<f64>> = test.metrics.iter().map(|&(metric, _)| platform.values(metric)).collect();
        let mut chance = Chance::new(seed);
        let mut order: Vec<usize> = (0..runs).collect();
        for _ in 0..SPLITS {
            chance.shuffle(&mut order);
            let (first, second) = order.split_at(runs / 2);
            let verdicts = judge(&values, first, second, &test.metrics);
            test.splits += 1;
            test.different += u32::from(verdicts.iter().any(|verdict| verdict.is_difference()));
            let settled = |verdict: &Verdict| matches!(verdict, Verdict::Equivalent | Verdict::Negligible);
            test.alike += u32::from(verdicts.iter().all(settled));
        }
        test
    }

    /// Chance explains the findings; none if nothing was tried. The level is 5 %, but ways to deal ten runs
    /// resemble each other, and more so in some data sets: only twice the level is reason for doubt.
    pub fn passes(&self) -> Option<bool> {
        (self.splits > 0).then_some(self.different * 10 <= self.splits)
    }
}

fn judge(values: &[Vec<f64>], first: &[usize], second: &[usize], metrics: &[(Metric, f64)]) -> Vec<Verdict> {
    let half = |values: &[f64], half: &[usize]| half.iter().map(|&index| values[index]).collect::<Vec<f64>>();
    let mut judged: Vec<_> = metrics
        .iter()
        .zip(values)
        .map(|(&(metric, margin), values)| {
            measure(metric, margin, &half(values, first), &half(values, second))
        })
        .collect();
    let runs = first.len().min(second.len());
    let mut family: Vec<_> = judged.iter_mut().map(|judged| (judged, runs, false)).collect();
    decide(&mut family);
    judged.into_iter().map(|judged| judged.verdict).collect()
}
