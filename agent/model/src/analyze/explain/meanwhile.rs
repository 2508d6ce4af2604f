//! What the other threads of a request's process did while it waited: an event loop, for instance, waits in
//! poll while a worker computes the answer, and other connections end most of these waits.

use super::super::{cause::Cause, split::FOR_OTHERS};

/// CPU time of the other threads of its process during a phase, without nested phases; with other requests in
/// flight, an equal share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meanwhile {
    /// In this request, ns.
    pub ns: u64,
    /// The mean in the typical one, ns.
    pub typical_ns: f64,
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
