//! Ratios of paired measurements with an interval: the mean of the logarithms and Student's t.
//!
//! Pairs come from the same round, so drift of the machine cancels. A ratio of medians needs no pairs, but
//! would show drift as a difference.

use std::fmt;

/// Two-sided 97.5 % points of Student's t by degrees of freedom, 1 to 30 (any table of the distribution).
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// Geometric mean of the pairs' ratios.
    pub(crate) value: f64,
    /// Lower end of the 95 % interval.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
    /// Number of pairs.
    pub(crate) rounds: usize,
}

impl Ratio {
    /// Ratio of `measured` to `base`, pair by pair. None without two pairs of positive numbers: a difference
    /// that noise made negative has no logarithm, and leaving it out would bias the mean.
    pub(crate) fn new(measured: &[f64], base: &[f64]) -> Option<Self> {
        let pairs = measured.iter().zip(base);
        let logs: Vec<f64> = pairs.map(|(measured, base)| (measured / base).ln()).collect();
        if logs.len() < 2 || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = T.get(logs.len() - 2).copied().unwrap_or(1.96);
        let half = t * (variance / n).sqrt();
        let rounds = logs.len();
        Some(Self { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp(), rounds })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.value, self.low, self.high)
    }
}

/// The median.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_pairs_have_no_width() {
        let ratio = Ratio::new(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-12 && (ratio.high - ratio.low).abs() < 1e-12);
    }

    /// By hand: logs 0, ln 2, mean ln 2 / 2, sd ln 2 / sqrt 2, half 12.706 * ln 2 / 2.
    #[test]
    fn two_pairs_by_hand() {
        let ratio = Ratio::new(&[1.0, 2.0], &[1.0, 1.0]).unwrap();
        assert!((ratio.value - 2_f64.sqrt()).abs() < 1e-9);
        let half = 12.706 * 2_f64.ln() / 2.0;
        assert!((ratio.high.ln() - ratio.value.ln() - half).abs() < 1e-9);
    }

    #[test]
    fn a_negative_difference_gives_no_ratio() {
        assert_eq!(Ratio::new(&[1.0, -1.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[1.0, 2.0]) - 1.5).abs() < 1e-12);
    }
}
