//! The part of a run that its rows are of, in its stored form.

use serde::{Deserialize, Serialize};

/// What was left out or removed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptRecord {
    /// Part of the requests whose rows were kept, chosen at random: more than 0, at most 1.
    pub sample: f64,
    /// Requests that were not chosen.
    pub sampled_out: u64,
    /// Rows of `phases` that were removed later, since the budget of bytes was used up.
    pub phases_removed: u64,
    /// Begin of what was kept, CLOCK_MONOTONIC, ns; 0 if nothing was removed.
    pub from_ns: u64,
}

impl Default for KeptRecord {
    fn default() -> Self {
        Self { sample: 1.0, sampled_out: 0, phases_removed: 0, from_ns: 0 }
    }
}

impl KeptRecord {
    /// By how much the number of kept requests is to be multiplied to give that of all. A folder may hold
    /// anything; a part that is none counts as the whole.
    pub fn weight(&self) -> f64 {
        if self.sample > 0.0 && self.sample <= 1.0 { 1.0 / self.sample } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1.0, 1.0)]
    #[case(0.25, 4.0)]
    #[case(0.0, 1.0)]
    #[case(-1.0, 1.0)]
    #[case(7.0, 1.0)]
    #[case(f64::NAN, 1.0)]
    fn each_kept_request_stands_for_so_many(#[case] sample: f64, #[case] weight: f64) {
        assert_eq!(KeptRecord { sample, ..KeptRecord::default() }.weight().to_bits(), weight.to_bits());
    }
}
