//! What the other threads of a request's process did while it waited: an event loop, for instance, waits in
//! poll while a worker computes the answer, and other connections end most of these waits.

use guestscope_contract::Account;

use super::super::{cause::Cause, split::FOR_OTHERS};
use crate::phase::Request;

/// CPU time of the other threads of its process during a request; with other requests in flight, an equal
/// share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meanwhile {
    /// In this request, ns.
    pub ns: u64,
    /// The mean in the typical one, ns.
    pub typical_ns: f64,
}

/// That of a request, ns.
pub(super) fn of(request: &Request) -> u64 {
    request.root().helpers.accounts.get(Account::Cpu)
}

/// It, if it may be what a part of this cause and excess, ns, waited for: a wait for others that got longer
/// by no more than twice what they ran longer.
pub(super) fn beside(cause: Cause, excess_ns: i64, meanwhile: Meanwhile) -> Option<Meanwhile> {
    let is_for_others = FOR_OTHERS.iter().any(|account| cause == Cause::Account(*account));
    let more_ns = meanwhile.ns as f64 - meanwhile.typical_ns;
    (is_for_others && excess_ns > 0 && more_ns * 2.0 >= excess_ns as f64).then_some(meanwhile)
}
