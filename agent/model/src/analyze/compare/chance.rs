//! Chance, for checks that need some: the same seed gives the same choices on every machine.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// Choices of one seed.
#[derive(Clone, Debug)]
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Shuffles the values; the remainder's bias is below 2^-40 for any realistic number of runs.
    pub(super) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = (self.next() % (last as u64 + 1)) as usize;
            values.swap(last, other);
        }
    }
}

/// Labellings up to which all are tried: 20 runs, ten of each platform, have 184,756.
const MOST_EXACT: u64 = 200_000;
/// Labellings tried where there are more.
const SAMPLED: u32 = 100_000;

/// Share of all ways to divide the runs between two platforms that give a difference of means, in either
/// direction, at least as large as the observed one. It assumes no distribution: a check beside Welch's
/// probability.
pub(super) fn permutation_probability(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let sum: f64 = all.iter().sum();
    let (n, k) = (all.len() as f64, first.len() as f64);
    let distance = |first_sum: f64| ((sum - first_sum) / (n - k) - first_sum / k).abs();
    let real = distance(first.iter().sum());
    // A difference that only rounding separates is the same labelling or its mirror image.
    let reached = |first_sum: f64| distance(first_sum) >= real * (1.0 - 1e-12);
    if labellings(all.len() as u64, first.len() as u64) <= MOST_EXACT {
        let (mut as_large, mut tried) = (0_u64, 0_u64);
        each_choice(&all, first.len(), 0.0, &mut |first_sum| {
            tried += 1;
            as_large += u64::from(reached(first_sum));
        });
        return Some(as_large as f64 / tried.max(1) as f64);
    }
    let mut chance = Chance::new(0x9e37);
    let mut dealt = all;
    let mut as_large = 1_u32; // the real one
    for _ in 0..SAMPLED {
        chance.shuffle(&mut dealt);
        as_large += u32::from(reached(dealt[..first.len()].iter().sum()));
    }
    Some(f64::from(as_large) / f64::from(SAMPLED + 1))
}

/// Ways to choose `k` of `n`, or the largest number.
fn labellings(n: u64, k: u64) -> u64 {
    (0..k.min(n - k)).try_fold(1_u64, |ways, i| Some(ways.checked_mul(n - i)? / (i + 1))).unwrap_or(u64::MAX)
}

/// The sums of all choices of this many values.
fn each_choice(values: &[f64], choose: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if choose == 0 {
        visit(sum);
        return;
    }
    if let Some((first, rest)) = values.split_first().filter(|_| values.len() >= choose) {
        each_choice(rest, choose - 1, sum + first, visit);
        each_choice(rest, choose, sum, visit);
    }
}
