//! Causes of slow requests: for all above a percentile, how much of their excess each part explains.
//!
//! Yields a [`Tail`] per percentile: exact sums that add up to the excess of all of them. Requests are
//! weighted by their excess, so one cause of a few very late requests ranks before a small delay of many.

use std::collections::BTreeMap;

use super::super::{
    cause::Cause,
    quantiles::Band,
    tree::{PlaceId, Tree},
};
use crate::untrusted::Untrusted;

/// The part of a tail's excess that one cause explains, over all phases.
#[derive(Clone, Debug, PartialEq)]
pub struct TailCause {
    /// The cause.
    pub cause: Cause,
    /// Excess over all requests of the tail, ns; negative where it is less than that of as many typical ones.
    pub excess_ns: i128,
    /// Share of the whole excess. All shares add up to 1; one can be above it, another below zero.
    pub share: f64,
    /// Requests of which it makes half of the excess or more.
    pub requests: u64,
}

/// The part of a tail's excess that one cause explains in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct TailPart {
    /// Names from under the request, or [`super::super::OUTSIDE`].
    pub path: Vec<Untrusted>,
    /// The cause.
    pub cause: Cause,
    /// Excess over all requests of the tail, ns.
    pub excess_ns: i128,
    /// Share of the whole excess.
    pub share: f64,
}

/// All requests above a percentile of latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// The percentile.
    pub band: Band,
    /// Latency at the percentile, ns.
    pub above_ns: u64,
    /// Number of requests above it.
    pub requests: u64,
    /// Excess over as many typical requests, ns: the sum over `causes`, and over `parts`.
    pub excess_ns: i128,
    /// Causes with a part in it, largest first.
    pub causes: Vec<TailCause>,
    /// The same by phase.
    pub parts: Vec<TailPart>,
}

impl Tail {
    /// The share of one cause.
    pub fn share_of(&self, cause: Cause) -> f64 {
        self.causes.iter().find(|one| one.cause == cause).map_or(0.0, |one| one.share)
    }
}

/// A tail while requests come.
pub(super) struct TailTally {
    band: Band,
    above_ns: u64,
    requests: u64,
    excess_ns: i128,
    by_part: BTreeMap<(PlaceId, Cause), i128>,
    dominated: BTreeMap<Cause, u64>,
}

impl TailTally {
    pub(super) fn new(band: Band, above_ns: u64) -> Self {
        let (by_part, dominated) = (BTreeMap::new(), BTreeMap::new());
        Self { band, above_ns, requests: 0, excess_ns: 0, by_part, dominated }
    }

    pub(super) const fn contains(&self, latency_ns: u64) -> bool {
        latency_ns > self.above_ns
    }

    pub(super) fn add(&mut self, excess_ns: i128, parts: &[(PlaceId, Cause, i64)]) {
        self.requests += 1;
        self.excess_ns += excess_ns;
        let mut by_cause: BTreeMap<Cause, i128> = BTreeMap::new();
        for &(place, cause, part_ns) in parts {
            *self.by_part.entry((place, cause)).or_default() += i128::from(part_ns);
            *by_cause.entry(cause).or_default() += i128::from(part_ns);
        }
        // Among equals the first cause, as in the slowest requests.
        let largest = by_cause.into_iter().max_by_key(|&(cause, ns)| (ns, std::cmp::Reverse(cause)));
        if let Some((cause, _)) = largest.filter(|&(_, ns)| ns > 0 && ns * 2 >= excess_ns) {
            *self.dominated.entry(cause).or_default() += 1;
        }
    }

    /// `order` is that of the rows: it decides between equals, so that the order of reading cannot.
    pub(super) fn finish(self, tree: &Tree, order: &[PlaceId]) -> Tail {
        let Self { band, above_ns, requests, excess_ns, by_part, dominated } = self;
        let share = |ns: i128| if excess_ns == 0 { 0.0 } else { ns as f64 / excess_ns as f64 };
        let mut by_cause: BTreeMap<Cause, i128> = BTreeMap::new();
        for (&(_, cause), ns) in &by_part {
            *by_cause.entry(cause).or_default() += ns;
        }
        let mut causes: Vec<TailCause> = by_cause
            .into_iter()
            .map(|(cause, ns)| {
                let requests = dominated.get(&cause).copied().unwrap_or(0);
                TailCause { cause, excess_ns: ns, share: share(ns), requests }
            })
            .collect();
        causes.sort_by_key(|one| (std::cmp::Reverse(one.excess_ns), one.cause));
        let rank = |place: PlaceId| order.iter().position(|&other| other == place);
        let mut by_part: Vec<((PlaceId, Cause), i128)> = by_part.into_iter().collect();
        by_part.sort_by_key(|&((place, cause), ns)| (std::cmp::Reverse(ns), rank(place), cause));
        let part = |((place, cause), ns)| TailPart {
            path: tree.path(place),
            cause,
            excess_ns: ns,
            share: share(ns),
        };
        let parts = by_part.into_iter().filter(|&(_, ns)| ns != 0).map(part).collect();
        causes.retain(|one| one.excess_ns != 0 || one.requests > 0);
        Tail { band, above_ns, requests, excess_ns, causes, parts }
    }
}
