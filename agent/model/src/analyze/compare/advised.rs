//! What to do about a difference, and on which finding the advice rests.
//!
//! Yields [`Advised`]: for the cause that explains most of the time, and for an increase of migrations
//! between caches, whose cost is part of `cpu`. No advice where an emulator executed the guest's
//! instructions.

use super::{
    CountChange,
    compared::{Compared, Side},
};
use crate::analyze::{
    advice::{self, Advice},
    cause::Cause,
};
use crate::phase::Metric;

/// Moves after which a cache is cold. To another hardware thread of its core a thread takes its caches along.
const COLD: [Metric; 3] = [Metric::MigrateLlc, Metric::MigrateNode, Metric::MigrateRemote];

/// Advice on a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Advised<'a> {
    /// The cause, by the name in reports.
    pub cause: &'static str,
    /// Events that are significantly more frequent on the slower side; empty if the advice rests on times.
    pub counts: Vec<&'a CountChange>,
    /// The advice, with its source.
    pub advice: Advice,
}

impl Compared {
    /// Advice on the difference from this baseline, most important first.
    pub fn advised(&self, baseline: &Side) -> Vec<Advised<'_>> {
        let Some((explained, quantile)) = self.explained() else { return Vec::new() };
        if self.is_emulated(baseline) {
            return Vec::new();
        }
        let first = explained.first().map(|first| (first.cause.name(), Vec::new()));
        // Counts are of all requests, and say nothing about the slowest.
        let moves = if quantile.is_none() { self.moves() } else { Vec::new() };
        let moves = (!moves.is_empty()).then_some(("migration", moves));
        let of_limit = |name: &str| {
            let cause = Cause::all().find(|cause| cause.name() == name)?;
            advice::for_limit(self.hit_of(self.limited(cause)?)?)
        };
        let advised = |(cause, counts)| {
            let advice = of_limit(cause).or_else(|| advice::for_cause(cause))?;
            Some(Advised { cause, counts, advice })
        };
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
        let cold = || self.counts.iter().filter(|change| COLD.contains(&change.metric));
        let more: f64 = cold().map(|change| change.difference.value * slower).sum();
        let rises = |change: &&CountChange| change.is_sure() && change.difference.value * slower > 0.0;
        if more > 0.0 { cold().filter(rises).collect() } else { Vec::new() }
    }
}
