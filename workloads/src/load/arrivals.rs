//! Arrival times of the Server scenario: a Poisson process, drawn from the seed alone. Yields offsets from
//! the start. It knows no clock, so nothing that happens while requests run can move an arrival.
//!
//! Gaps are drawn as von Neumann did it ("Various techniques used in connection with random digits", 1951):
//! by comparing uniform numbers, without a logarithm, whose last bit depends on the C library. About 4.3
//! numbers per gap. The same seed gives the same gaps in units of their mean at every rate, so a search for a
//! rate compares like with like.

use crate::data::random::Random;

/// Stream of random numbers for arrivals.
const ARRIVALS: u64 = 0x4152_5256;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// The arrivals of one run: nanoseconds since its start, the first at 0. Never ends.
#[derive(Clone, Debug)]
pub struct Arrivals {
    random: Random,
    mean_gap_ns: f64,
    next_ns: u64,
}

impl Arrivals {
    /// `qps` requests per second on average.
    pub fn new(seed: u64, qps: f64) -> Self {
        Self { random: Random::new(seed, ARRIVALS), mean_gap_ns: 1e9 / qps, next_ns: 0 }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let now_ns = self.next_ns;
        let gap_ns = exponential(&mut self.random) * self.mean_gap_ns;
        self.next_ns = now_ns.saturating_add(gap_ns.round() as u64);
        Some(now_ns)
    }
}

/// Exponential with mean 1. A descending run of uniform numbers that begins with x has an odd length with
/// probability exp(-x): then x is the fractional part. A run of even length adds one to the whole part.
fn exponential(random: &mut Random) -> f64 {
    for whole in 0_u32.. {
        let first = random.u64();
        let (mut last, mut length) = (first, 1);
        loop {
            let next = random.u64();
            if next >= last {
                break;
            }
            (last, length) = (next, length + 1);
        }
        if length % 2 == 1 {
            return f64::from(whole) + first as f64 / TWO_TO_64;
        }
    }
    // 2^32 failures in a row, each of probability 1/e.
    f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Arrivals, exponential};
    use crate::data::random::Random;

    fn gaps(seed: u64, qps: f64, count: usize) -> Vec<f64> {
        let arrivals: Vec<u64> = Arrivals::new(seed, qps).take(count + 1).collect();
        arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    /// Kolmogorov and Smirnov: the largest distance between the distribution of `values` and the one named by
    /// `cdf`, times the square root of how many there are. Above 1.628 in one of 100 samples that do follow
    /// it, above 1.949 in one of 1,000 (Smirnov's table).
    fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let at = |(i, value): (usize, &f64)| {
            let expected = cdf(*value);
            (expected - i as f64 / n).max((i + 1) as f64 / n - expected)
        };
        values.iter().enumerate().map(at).fold(0.0, f64::max) * n.sqrt()
    }

    #[rstest]
    #[case(1, 10.0)]
    #[case(2, 1000.0)]
    #[case(3, 0.5)]
    fn gaps_are_exponential(#[case] seed: u64, #[case] qps: f64) {
        let found = distance(gaps(seed, qps, 20_000), |ns| 1.0 - (-ns * qps / 1e9).exp());
        assert!(found < 1.628, "{found}");
    }

    #[test]
    fn the_test_would_find_another_distribution() {
        let uniform = gaps(1, 10.0, 20_000).into_iter().map(|ns| 2e8 * (1.0 - (-ns / 1e8).exp())).collect();
        assert!(distance(uniform, |ns| 1.0 - (-ns / 1e8).exp()) > 1.949);
        let faster = gaps(1, 10.5, 20_000);
        assert!(distance(faster, |ns| 1.0 - (-ns / 1e8).exp()) > 1.949, "5 % off the rate");
    }

    /// In a Poisson process arrivals are uniform in any interval, and counts have a variance like their mean.
    #[test]
    fn arrivals_are_a_poisson_process() {
        let arrivals: Vec<f64> =
            Arrivals::new(5, 100.0).take_while(|ns| *ns < 200_000_000_000).map(|ns| ns as f64).collect();
        let found = distance(arrivals.clone(), |ns| ns / 2e11);
        assert!(found < 1.628, "{found}");
        let mut counts = [0.0_f64; 2000];
        for ns in &arrivals {
            counts[(ns / 1e8) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 2000.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1999.0;
        // The ratio has a standard deviation of sqrt(2 / 1999) = 0.032.
        assert!((variance / mean - 1.0).abs() < 0.1, "{variance} for a mean of {mean}");
    }

    /// The correlation of a gap with the next has a standard deviation of 1 / sqrt(n) = 0.007.
    #[test]
    fn a_gap_says_nothing_of_the_next() {
        let gaps = gaps(7, 1.0, 20_000);
        let product: f64 = gaps.windows(2).map(|pair| (pair[0] / 1e9 - 1.0) * (pair[1] / 1e9 - 1.0)).sum();
        assert!((product / 20_000.0).abs() < 0.03, "{product}");
    }

    #[test]
    fn a_seed_and_a_rate_decide_every_arrival() {
        let first = |seed, qps| Arrivals::new(seed, qps).take(50).collect::<Vec<u64>>();
        assert_eq!(first(1, 20.0), first(1, 20.0));
        assert_ne!(first(1, 20.0), first(2, 20.0));
        assert_eq!(first(1, 20.0)[0], 0);
        for (slow, fast) in first(1, 20.0).iter().zip(first(1, 40.0)) {
            assert!(slow.abs_diff(2 * fast) <= 50, "the same process at twice the speed: {slow} and {fast}");
        }
        let mut random = Random::new(1, 2);
        assert!((0..10_000).all(|_| exponential(&mut random) >= 0.0));
    }
}
