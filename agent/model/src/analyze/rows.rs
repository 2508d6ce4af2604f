//! One row per place in the tree of phases: count, durations, time by account.
//!
//! Yields [`Row`]. Times are those of whole phases including nested ones; only [`RowKind::Outside`] is a
//! remainder.

use crate::phase::{COUNTS, Counts, Phase};
use crate::untrusted::Untrusted;

use super::{
    quantiles::{Durations, Quantiles},
    split::{Split, Sums},
};

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A marked phase.
    Phase,
    /// Waiting before the request began.
    Queue,
    /// Time that no phase covers, request by request.
    Outside,
    /// Phases under names for which there was no room.
    Other,
}

/// All phases of one name at one place, or one of the special rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Kind of the row.
    pub kind: RowKind,
    /// Names from under the request down to this one; never empty.
    pub path: Vec<Untrusted>,
    /// 0 directly under the request.
    pub depth: usize,
    /// Durations, one per phase; for [`RowKind::Outside`] one per request.
    pub duration: Quantiles,
    /// Durations as a share of all latencies, 0 to 1. Rows of depth 0 add up to 1, unless phases overlap.
    pub share: f64,
    /// Where the time went, exact sums over `duration.count` phases.
    pub sums: Sums,
    /// Events, exact sums, in the order of [`Metric::ALL`].
    pub counts: [u128; COUNTS],
}

/// A row while requests come.
#[derive(Clone, Debug)]
pub(super) struct RowTally {
    pub(super) durations: Durations,
    pub(super) sums: Sums,
    pub(super) counts: [u128; COUNTS],
}

// Rust implements `Default` only for arrays of up to 32 elements.
impl Default for RowTally {
    fn default() -> Self {
        Self { durations: Durations::default(), sums: Sums::default(), counts: [0; COUNTS] }
    }
}

impl RowTally {
    pub(super) fn add(&mut self, phase: &Phase) {
        self.durations.record(phase.duration_ns);
        self.sums.add(&Split::of(phase));
        add_counts(&mut self.counts, &phase.counts);
    }
}

pub(super) fn add_counts(sums: &mut [u128; COUNTS], counts: &Counts) {
    for (sum, count) in sums.iter_mut().zip(counts.to_array()) {
        *sum += u128::from(count);
    }
}
