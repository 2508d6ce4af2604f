//! What to do about a difference, and on which finding the advice rests.
//!
//! Yields [`Advised`]: for the causes that explain much of the time, the largest first, and for an increase
//! of migrations between caches, whose cost is part of `cpu`, where they may cost enough. No advice where an
//! emulator executed the guest's instructions.

use guestscope_contract::Account;

use super::{
    CountChange, Decomposition, GpuCause,
    compared::{Compared, Side},
};
use crate::analyze::{
    advice::{self, Advice},
    cause::Cause,
    moves,
};

/// Share of a difference from which on a cause gets advice; the largest one always does.
const WORTH: f64 = 0.25;
/// Causes that are advised on.
const MOST: usize = 3;
/// Share of a wait for io_uring from which on I/Os of devices are what it was for.
const OF_DEVICES: f64 = 0.5;

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
        let total = explained.difference_ns.value;
        let rank = |(index, share): (usize, f64)| index == 0 && share > 0.0 || share >= WORTH;
        let worth = explained.causes.iter().enumerate();
        let worth = worth.filter(|(index, one)| rank((*index, one.difference_ns.value / total)));
        let causes = worth.take(MOST).map(|(_, one)| one.cause);
        let of_gpu = |one: &GpuCause| {
            let advice = advice::for_cause(one.bound.longer())?;
            Some(Advised { cause: one.bound.name(), counts: Vec::new(), advice })
        };
        let gpu_causes = self.gpu_causes();
        let of_cause = |cause: Cause| {
            let limit = self.limited(cause).and_then(|difference| self.hit_of(difference));
            let advice = limit.and_then(|limit| advice::for_limit(limit, false));
            let advice = advice.or_else(|| advice::for_cause(self.key(cause, explained)))?;
            Some(Advised { cause: cause.name(), counts: Vec::new(), advice })
        };
        let mut advised: Vec<Advised<'_>> = Vec::new();
        for cause in causes {
            // What the GPU did says more than that it was waited for; once, whichever way threads waited.
            if !cause.waits_for_gpu() || gpu_causes.is_empty() {
                advised.extend(of_cause(cause));
            } else if advised.iter().all(|one| one.cause != gpu_causes[0].bound.name()) {
                advised.extend(gpu_causes.iter().filter_map(of_gpu));
            }
        }
        // Counts are of all requests, and say nothing about the slowest.
        let counts = if quantile.is_none() { self.moves() } else { Vec::new() };
        if let Some(advice) = advice::for_cause("migration").filter(|_| !counts.is_empty()) {
            advised.push(Advised { cause: "migration", counts, advice });
        }
        advised
    }

    /// The key of the advice on a cause: a thread that waits in `poll` may wait for its own I/Os, which
    /// devices have and no wait for a device shows; and one that waits for a peer may wait for the network.
    fn key(&self, cause: Cause, explained: &Decomposition) -> &'static str {
        let more_ns = |account: Account| {
            explained.cause(Cause::Account(account)).map_or(0.0, |one| one.difference_ns.value)
        };
        let waited_ns = more_ns(Account::BlockIo) + more_ns(Account::Fault);
        let (poll_ns, in_flight_ns) = (more_ns(Account::Poll), self.device_ns - waited_ns);
        let is_own = cause == Cause::Account(Account::Poll) && in_flight_ns / poll_ns >= OF_DEVICES;
        let is_way =
            cause == Cause::Account(Account::Net) && self.round_trip_ns / more_ns(Account::Net) >= WORTH;
        match () {
            () if is_own => advice::IN_FLIGHT,
            () if is_way => advice::ON_THE_WAY,
            () => cause.name(),
        }
    }

    /// Runs of either side were emulated.
    pub const fn is_emulated(&self, baseline: &Side) -> bool {
        self.side.emulated > 0 || baseline.emulated > 0
    }

    /// Moves to cold caches of which the slower side surely has more, unless it has fewer of all kinds
    /// together: then only the kind of move changed. Nothing where they cannot have cost much.
    fn moves(&self) -> Vec<&CountChange> {
        let slower = self.mean.difference_ns.value.signum();
        let cold = || self.counts.iter().filter(|change| moves::COLD.contains(&change.metric));
        let more: f64 = cold().map(|change| change.difference.value * slower).sum();
        let rises = |change: &&CountChange| change.is_sure() && change.difference.value * slower > 0.0;
        let rising = || cold().filter(rises);
        let price = |change: &CountChange| change.difference.value.abs() * moves::price_ns(change.metric);
        let at_most_ns: f64 = rising().map(price).sum();
        let is_much = at_most_ns >= self.mean.difference_ns.value.abs() * moves::WORTH;
        if more > 0.0 && is_much { rising().collect() } else { Vec::new() }
    }
}
