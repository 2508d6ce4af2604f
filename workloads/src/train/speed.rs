//! Images per second as in tf_cnn_benchmarks: over all steps so far, with the standard error of the mean and
//! the jitter (1.4826 times the median distance from the median, the deviation of a normal distribution).

/// Speed over the steps so far, images per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Images over elapsed time.
    pub images_per_s: f64,
    /// Standard error of the mean.
    pub uncertainty: f64,
    /// Spread without outliers.
    pub jitter: f64,
}

impl Speed {
    /// The speed of steps of `batch` images that took `step_ns` each.
    pub fn of(batch: u64, step_ns: &[u64]) -> Self {
        let count = step_ns.len() as f64;
        let total_ns = step_ns.iter().map(|ns| *ns as f64).sum::<f64>();
        if total_ns <= 0.0 {
            return Self::default();
        }
        let speeds: Vec<f64> = step_ns.iter().map(|ns| batch as f64 * 1e9 / (*ns).max(1) as f64).collect();
        let mean = speeds.iter().sum::<f64>() / count;
        let variance = speeds.iter().map(|speed| (speed - mean).powi(2)).sum::<f64>() / count;
        let middle = median(speeds.clone());
        let distances = speeds.iter().map(|speed| (speed - middle).abs()).collect();
        Self {
            images_per_s: batch as f64 * count * 1e9 / total_ns,
            uncertainty: (variance / count).sqrt(),
            jitter: 1.4826 * median(distances),
        }
    }
}

/// Median of at least one number, none of them NaN; for an even count the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[half - 1], values[half]) } else { values[half] }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Speed;

    /// Expected values by numpy: `b/t.mean()`, `(b/t).std()/sqrt(n)`, `1.4826*median(abs(s-median(s)))`.
    #[rstest]
    #[case(32, &[1_000_000_000], (32.0, 0.0, 0.0))]
    #[case(10, &[100_000_000, 200_000_000, 400_000_000, 500_000_000], (33.333_333, 15.848_403, 22.239))]
    #[case(8, &[], (0.0, 0.0, 0.0))]
    fn as_tf_cnn_benchmarks_counts(
        #[case] batch: u64,
        #[case] step_ns: &[u64],
        #[case] expected: (f64, f64, f64),
    ) {
        let speed = Speed::of(batch, step_ns);
        let found = [speed.images_per_s, speed.uncertainty, speed.jitter];
        for (found, expected) in found.into_iter().zip([expected.0, expected.1, expected.2]) {
            assert!((found - expected).abs() < 1e-5, "{speed:?}, expected {expected}");
        }
    }
}
