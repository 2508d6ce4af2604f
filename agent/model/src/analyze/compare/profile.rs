//! Mean time per request, by phase and account, with overlays and counts.
//!
//! Yields [`Profile`]. It is additive: its times add up to the mean latency of its requests.

use guestscope_contract::Account;

use crate::analyze::split::{Parts, Split, Sums};
use crate::untrusted::Untrusted;

/// A phase by its names from under the request down, or [`super::super::OUTSIDE`].
pub type Path = Vec<Untrusted>;

/// Means of one phase's own time over all requests, ns.
pub(super) type Means = Parts<f64>;

impl Means {
    /// Adds so much of an interval.
    pub(super) fn add(&mut self, split: &Split, weight: f64) {
        *self = self.zip(split, |mine, theirs| mine + theirs as f64 * weight);
    }

    /// Means of sums over this number of requests.
    pub(super) fn of(sums: &Sums, requests: u64) -> Self {
        let count = requests.max(1) as f64;
        sums.map(|ns| ns as f64 / count)
    }

    fn merge(&mut self, other: &Means) {
        *self = self.zip(other, |mine, theirs| mine + theirs);
    }

    fn scale(&mut self, factor: f64) {
        *self = self.map(|value| value * factor);
    }

    /// Folds to the accounts that every fidelity has, and to no number beside them.
    fn fold(&mut self) {
        let Self { suspended, queue, handoff, .. } = *self;
        let mut folded = Self { suspended, queue, handoff, ..Self::default() };
        for account in Account::ALL {
            folded.accounts[account.coarse() as usize] += self.accounts[account as usize];
        }
        *self = folded;
    }
}

/// Where the time of a mean request went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Means by phase, in the order of the phases' first starts.
    pub(super) phases: Vec<(Path, Means)>,
}

impl Profile {
    /// Means of one phase; zeros if there is no phase of that name.
    pub(super) fn get(&self, path: &[Untrusted]) -> Means {
        let found = self.phases.iter().find(|(known, _)| known == path);
        found.map(|(_, means)| *means).unwrap_or_default()
    }

    /// Adds to what there is of a phase.
    pub(super) fn add(&mut self, path: Path, means: &Means) {
        match self.phases.iter_mut().find(|(known, _)| *known == path) {
            Some((_, sum)) => sum.merge(means),
            None => self.phases.push((path, *means)),
        }
    }

    /// The mean of several, each weighing the same.
    pub(super) fn mean<'a>(profiles: impl ExactSizeIterator<Item = &'a Profile>) -> Self {
        let count = profiles.len().max(1) as f64;
        let mut mean = Self::default();
        for (path, means) in profiles.flat_map(|profile| &profile.phases) {
            mean.add(path.clone(), means);
        }
        for (_, means) in &mut mean.phases {
            means.scale(1.0 / count);
        }
        mean
    }

    /// Folded to the accounts that every fidelity has.
    pub(super) fn fold(&mut self) {
        for (_, means) in &mut self.phases {
            means.fold();
        }
    }
}
