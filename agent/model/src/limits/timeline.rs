//! Amounts over the time of a run, in bounded size: steps become twice as long where there would be too many.

use serde::{Deserialize, Serialize};

/// Most steps: a run of a minute has steps of 200 ms, one of an hour steps of 7 s.
const STEPS: usize = 512;

/// Amounts by step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Begin of the first step: CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// Length of a step, ns.
    pub step_ns: u64,
    /// Amounts by step, up to the last that is not zero.
    pub amounts: Vec<u64>,
}

impl Timeline {
    /// Steps of this length from now on.
    pub const fn starting(from_ns: u64, step_ns: u64) -> Self {
        Self { from_ns, step_ns, amounts: Vec::new() }
    }

    /// Adds an amount to the step of this time.
    pub fn add(&mut self, at_ns: u64, amount: u64) {
        if amount == 0 || self.step_ns == 0 {
            return;
        }
        let step = |step_ns: u64| usize::try_from(at_ns.saturating_sub(self.from_ns) / step_ns);
        while step(self.step_ns).is_ok_and(|at| at >= STEPS) {
            let pairs = self.amounts.chunks(2);
            self.amounts = pairs.map(|pair| pair.iter().fold(0, |a: u64, b| a.saturating_add(*b))).collect();
            self.step_ns *= 2;
        }
        let Ok(at) = step(self.step_ns) else { return };
        if self.amounts.len() <= at {
            self.amounts.resize(at + 1, 0);
        }
        self.amounts[at] = self.amounts[at].saturating_add(amount);
    }

    /// Adds what another one has, each amount at the middle of its step.
    pub fn add_all(&mut self, other: &Self) {
        if self.step_ns == 0 {
            (self.from_ns, self.step_ns) = (other.from_ns, other.step_ns);
        }
        for (index, &amount) in other.amounts.iter().enumerate() {
            let steps_ns = (index as u64).saturating_mul(other.step_ns);
            self.add(other.from_ns.saturating_add(steps_ns).saturating_add(other.step_ns / 2), amount);
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    /// The amount between two times; of a step that is covered in part, that part.
    pub fn between(&self, begin_ns: u64, end_ns: u64) -> f64 {
        let Some(step_ns) = std::num::NonZeroU64::new(self.step_ns) else { return 0.0 };
        let first = begin_ns.saturating_sub(self.from_ns) / step_ns;
        let steps = self.amounts.iter().enumerate().skip(usize::try_from(first).unwrap_or(usize::MAX));
        let mut sum = 0.0;
        for (index, &amount) in steps {
            let from_ns = self.from_ns.saturating_add((index as u64).saturating_mul(step_ns.get()));
            if from_ns >= end_ns {
                break;
            }
            let to_ns = from_ns.saturating_add(step_ns.get());
            let within = to_ns.min(end_ns).saturating_sub(from_ns.max(begin_ns));
            sum += amount as f64 * within as f64 / step_ns.get() as f64;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::{STEPS, Timeline};

    #[test]
    fn a_part_of_a_step_counts_for_that_part() {
        let mut line = Timeline::starting(1_000, 100);
        line.add(1_050, 10);
        line.add(1_250, 40);
        assert_eq!(line.amounts, [10, 0, 40]);
        let between = |begin_ns, end_ns| line.between(begin_ns, end_ns) as u64;
        assert_eq!([between(0, 5_000), between(1_050, 1_225)], [50, 15]);
        assert_eq!([between(0, 1_000), between(1_100, 1_200), between(1_300, 9_000)], [0; 3]);
        assert_eq!(between(1_260, 1_250), 0, "a span of a damaged folder");
    }

    #[test]
    fn any_length_takes_little_memory_and_loses_nothing() {
        let mut line = Timeline::starting(0, 100);
        for step in 0..100 * STEPS as u64 {
            line.add(step * 100, 3);
        }
        assert!(line.amounts.len() <= STEPS);
        assert_eq!(line.amounts.iter().sum::<u64>(), 300 * STEPS as u64);
        assert!((line.between(0, 50 * STEPS as u64 * 100) - 150.0 * STEPS as f64).abs() < 1.0);
    }

    #[test]
    fn what_a_damaged_folder_holds_does_no_harm() {
        let mut line = Timeline { from_ns: u64::MAX, step_ns: 0, amounts: vec![u64::MAX; 3] };
        line.add(u64::MAX, 1);
        assert!(line.between(0, u64::MAX) < 1.0);
        let line = Timeline { from_ns: u64::MAX - 1, step_ns: u64::MAX, amounts: vec![u64::MAX; 3] };
        assert!(line.between(0, u64::MAX).is_finite());
    }
}
