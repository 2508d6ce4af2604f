//! Mean time per request, by phase and account, with overlays and counts.
//!
//! Yields [`Profile`]. It is additive: its times add up to the mean latency of its requests.

use guestscope_contract::{ACCOUNTS, Account};

use crate::analyze::split::{BESIDE, CAUSES, Split, Sums};
use crate::untrusted::Untrusted;

/// A phase by its names from under the request down, or [`super::super::OUTSIDE`].
pub type Path = Vec<Untrusted>;

/// Means of one phase's own time over all requests, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Means {
    /// Time by cause, in the order of [`super::super::Cause::of_time`].
    pub(super) time: [f64; CAUSES],
    /// Numbers beside the time, in the order of a [`Split`].
    pub(super) beside: [f64; BESIDE],
}

impl Default for Means {
    fn default() -> Self {
        Self { time: [0.0; CAUSES], beside: [0.0; BESIDE] }
    }
}

impl Means {
    /// Adds so much of an interval.
    pub(super) fn add(&mut self, split: &Split, weight: f64) {
        let mine = self.time.iter_mut().chain(&mut self.beside);
        for (mine, theirs) in mine.zip(split.0.iter().chain(&split.1)) {
            *mine += *theirs as f64 * weight;
        }
    }

    /// Means of sums over this number of requests.
    pub(super) fn of(sums: &Sums, requests: u64) -> Self {
        let count = requests.max(1) as f64;
        Self { time: sums.0.map(|ns| ns as f64 / count), beside: sums.1.map(|ns| ns as f64 / count) }
    }

    fn merge(&mut self, other: &Means) {
        let mine = self.time.iter_mut().chain(&mut self.beside);
        for (mine, theirs) in mine.zip(other.time.iter().chain(&other.beside)) {
            *mine += theirs;
        }
    }

    fn scale(&mut self, factor: f64) {
        for value in self.time.iter_mut().chain(&mut self.beside) {
            *value *= factor;
        }
    }

    /// Folds accounts to those that `procfs` runs have: throttled time becomes `runq`, all waiting `other`.
    fn fold(&mut self) {
        let kept = [Account::Cpu, Account::Runq, Account::Other].map(|account| account as usize);
        self.time[Account::Runq as usize] += std::mem::take(&mut self.time[Account::Throttled as usize]);
        let others: f64 = (0..ACCOUNTS)
            .filter(|index| !kept.contains(index))
            .map(|index| std::mem::take(&mut self.time[index]))
            .sum();
        self.time[Account::Other as usize] += others;
        self.beside = [0.0; BESIDE];
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
