//! What the other threads of a request's process did while it waited: an event loop, for instance, waits in
//! poll while a worker computes the answer, and other connections end most of these waits.

use std::collections::HashMap;

use guestscope_contract::Account;

use super::super::{
    cause::Cause,
    split::FOR_OTHERS,
    tree::{Located, PlaceId},
};
use crate::phase::Request;

/// CPU time of the other threads of its process during a phase, without nested phases; with other requests in
/// flight, an equal share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meanwhile {
    /// In this request, ns.
    pub ns: u64,
    /// The mean in the typical one, ns.
    pub typical_ns: f64,
}

/// That of a request by place, ns.
pub(super) fn own(request: &Request, located: &Located) -> HashMap<PlaceId, u64> {
    let mut left: Vec<u64> = Vec::with_capacity(request.phases.len());
    for (index, (phase, &parent)) in request.phases.iter().zip(&located.parents).enumerate() {
        let whole = phase.helpers.accounts.get(Account::Cpu);
        if index > 0 {
            left[parent] = left[parent].saturating_sub(whole);
        }
        left.push(whole);
    }
    let mut by_place: HashMap<PlaceId, u64> = HashMap::new();
    for (&place, ns) in located.places.iter().zip(left) {
        let sum = by_place.entry(place).or_default();
        *sum = sum.saturating_add(ns);
    }
    by_place
}

/// Whether that may be what a part of this cause and excess, ns, waited for: half of what a wait for others
/// took longer, or more. Threads that compute all the time run longer beside everything that takes longer:
/// `rate` is the time that they run beside one nanosecond of a typical request.
pub(super) fn beside(cause: Cause, excess_ns: i64, meanwhile: Meanwhile, rate: f64) -> Option<Meanwhile> {
    let is_for_others = FOR_OTHERS.iter().any(|account| cause == Cause::Account(*account));
    let excess_ns = excess_ns as f64;
    let more_ns = meanwhile.ns as f64 - meanwhile.typical_ns - rate * excess_ns;
    (is_for_others && excess_ns > 0.0 && more_ns * 2.0 >= excess_ns).then_some(meanwhile)
}
