//! What to do about a difference, and on what that rests.
//!
//! Yields [`Advised`]: on the cause that explains most of the time, and on a rise of moves between caches,
//! whose cost is part of `cpu`. No advice where a program executed a guest's instructions.

use super::{Compared, CountChange, Side};
use crate::analyze::advice::{self, Advice};

/// Moves after which a cache is cold. To another hardware thread of its core a thread takes its caches along.
const COLD: [&str; 3] = ["migrate.llc", "migrate.node", "migrate.remote"];

/// Advice on a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Advised<'a> {
    /// The cause, by the name in reports.
    pub cause: &'static str,
    /// Events of which the slower side surely has more; none where times say so.
    pub counts: Vec<&'a CountChange>,
    /// What to do, and who says so.
    pub advice: Advice,
}

impl Compared {
    /// On its difference from this baseline, the most important first.
    pub fn advised(&self, baseline: &Side) -> Vec<Advised<'_>> {
        let Some((explained, quantile)) = self.explained() else { return Vec::new() };
        if self.is_emulated(baseline) {
            return Vec::new();
        }
        let first = explained.first().map(|first| (first.cause.name(), Vec::new()));
        // Counts are of all requests, and tell nothing of the slowest.
        let moves = if quantile.is_none() { self.moves() } else { Vec::new() };
        let moves = (!moves.is_empty()).then_some(("migration", moves));
        let advised = |(cause, counts)| Some(Advised { cause, counts, advice: advice::for_cause(cause)? });
        first.into_iter().chain(moves).filter_map(advised).collect()
    }

    /// Runs of either side were emulated.
    pub const fn is_emulated(&self, baseline: &Side) -> bool {
        self.side.emulated > 0 || baseline.emulated > 0
    }

    /// Moves to cold caches of which the slower side surely has more, unless it has fewer of all kinds
    /// together: then only the kind of move changed.
    fn moves(&self) -> Vec<&CountChange> {
        let slower = self.mean.difference_ns.value.signum();
        let cold = || self.counts.iter().filter(|change| COLD.contains(&change.name));
        let more: f64 = cold().map(|change| change.difference.value * slower).sum();
        let rises = |change: &&CountChange| change.is_sure() && change.difference.value * slower > 0.0;
        if more > 0.0 { cold().filter(rises).collect() } else { Vec::new() }
    }
}
