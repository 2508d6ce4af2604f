//! The server's parameters, and how gradients change them. Yields values and versions; pure arithmetic, in an
//! order that no worker's speed decides while steps are synchronous.

/// All numbers of a model, and the gradients that have come for its next version.
#[derive(Debug)]
pub struct Parameters {
    values: Vec<f32>,
    /// Number of updates so far.
    version: u64,
    learning_rate: f32,
    /// None if each gradient is applied as it comes; else one entry per worker. Keeps all gradients of a
    /// step, to add them up in the order of ranks: floating-point sums depend on the order.
    pending: Option<Vec<Option<Vec<f32>>>>,
    staleness: Staleness,
}

/// Staleness of gradients: how many versions behind the newest their parameters were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Sum over all gradients, versions.
    pub sum: u64,
    /// Staleness of the stalest gradient, versions.
    pub most: u64,
    /// Number of gradients.
    pub gradients: u64,
}

/// Reason to refuse a gradient.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no such rank: {rank}")]
    Rank { rank: u32 },
    #[error("a gradient of {found} numbers, and the model has {expected}")]
    Length { found: usize, expected: usize },
    #[error("a gradient from version {found}, and the next one must be from {expected}")]
    Version { found: u64, expected: u64 },
    #[error("a second gradient of rank {rank} for version {version}")]
    Twice { rank: u32, version: u64 },
}

impl Parameters {
    /// The first version.
    pub fn new(values: Vec<f32>, learning_rate: f64, workers: u32, asynchronous: bool) -> Self {
        let pending = (!asynchronous).then(|| (0..workers).map(|_| None).collect());
        // As in libtorch's SGD, the rate is rounded to the numbers' single precision.
        let learning_rate = learning_rate as f32;
        Self { values, version: 0, learning_rate, pending, staleness: Staleness::default() }
    }

    /// The newest values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Number of updates so far.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Staleness of the gradients so far.
    pub fn staleness(&self) -> Staleness {
        self.staleness
    }

    /// Whether a gradient of rank `rank` from version `from` would be taken.
    pub fn check(&self, rank: u32, from: u64) -> Result<(), Refusal> {
        let Some(pending) = &self.pending else {
            // A worker cannot have seen a version that does not exist yet.
            let is_possible = from <= self.version;
            return if is_possible {
                Ok(())
            } else {
                Err(Refusal::Version { found: from, expected: self.version })
            };
        };
        if from != self.version {
            return Err(Refusal::Version { found: from, expected: self.version });
        }
        match pending.get(rank as usize) {
            None => Err(Refusal::Rank { rank }),
            Some(Some(_)) => Err(Refusal::Twice { rank, version: from }),
            Some(None) => Ok(()),
        }
    }

    /// Takes a worker's gradient, computed from version `from`. True if that made a new version: at once, or
    /// with the last worker's gradient.
    pub fn push(&mut self, rank: u32, from: u64, gradient: Vec<f32>) -> Result<bool, Refusal> {
        self.check(rank, from)?;
        if gradient.len() != self.values.len() {
            return Err(Refusal::Length { found: gradient.len(), expected: self.values.len() });
        }
        let age = self.version - from;
        let Staleness { sum, most, gradients } = self.staleness;
        self.staleness = Staleness { sum: sum + age, most: most.max(age), gradients: gradients + 1 };
        let Some(pending) = &mut self.pending else {
            self.apply(&gradient);
            return Ok(true);
        };
        pending[rank as usize] = Some(gradient);
        if pending.iter().any(Option::is_none) {
            return Ok(false);
        }
        let mut all = pending.iter_mut().filter_map(Option::take);
        let mut mean = all.next().unwrap_or_default();
        let mut count = 1.0;
        for gradient in all {
            count += 1.0;
            for (sum, value) in mean.iter_mut().zip(&gradient) {
                *sum += value;
            }
        }
        for value in &mut mean {
            *value /= count;
        }
        self.apply(&mean);
        Ok(true)
    }

    fn apply(&mut self, gradient: &[f32]) {
        for (value, slope) in self.values.iter_mut().zip(gradient) {
            *value -= self.learning_rate * slope;
        }
        self.version += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Parameters, Refusal, Staleness};

    #[test]
    fn synchronous_steps_take_the_mean() {
        let mut parameters = Parameters::new(vec![1.0, 2.0], 0.5, 2, false);
        assert_eq!(parameters.push(1, 0, vec![4.0, 0.0]), Ok(false));
        assert_eq!(parameters.values(), [1.0, 2.0], "not before all are there");
        assert_eq!(parameters.push(0, 0, vec![2.0, -2.0]), Ok(true));
        assert_eq!(parameters.values(), [-0.5, 2.5]);
        assert_eq!((parameters.version(), parameters.staleness().most), (1, 0));
    }

    #[test]
    fn asynchronous_ones_take_each_as_it_comes() {
        let mut parameters = Parameters::new(vec![1.0], 0.5, 2, true);
        assert_eq!(parameters.push(1, 0, vec![1.0]), Ok(true));
        assert_eq!(parameters.push(0, 0, vec![1.0]), Ok(true));
        assert_eq!(parameters.values(), [0.0]);
        assert_eq!(parameters.staleness(), Staleness { sum: 1, most: 1, gradients: 2 });
        assert_eq!(parameters.push(0, 3, vec![1.0]), Err(Refusal::Version { found: 3, expected: 2 }));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut parameters = Parameters::new(vec![1.0], 0.5, 2, false);
        assert_eq!(parameters.push(0, 0, vec![]), Err(Refusal::Length { found: 0, expected: 1 }));
        assert_eq!(parameters.push(2, 0, vec![1.0]), Err(Refusal::Rank { rank: 2 }));
        assert_eq!(parameters.push(0, 1, vec![1.0]), Err(Refusal::Version { found: 1, expected: 0 }));
        assert_eq!(parameters.push(0, 0, vec![1.0]), Ok(false));
        assert_eq!(parameters.push(0, 0, vec![1.0]), Err(Refusal::Twice { rank: 0, version: 0 }));
        assert_eq!(parameters.values(), [1.0]);
    }

    proptest! {
        /// Compares exact bits, because floating-point sums depend on their order.
        #[test]
        fn who_comes_first_decides_nothing(
            gradients in proptest::collection::vec(proptest::collection::vec(-1e3_f32..1e3, 3), 2..6),
            turn in 0_usize..6,
        ) {
            let workers = gradients.len();
            let after = |first: usize| {
                let mut parameters = Parameters::new(vec![0.1, 0.2, 0.3], 0.1, workers as u32, false);
                for place in 0..workers {
                    let rank = (first + place) % workers;
                    parameters.push(rank as u32, 0, gradients[rank].clone()).unwrap();
                }
                parameters.values().to_vec()
            };
            prop_assert_eq!(after(0), after(turn));
        }
    }
}
