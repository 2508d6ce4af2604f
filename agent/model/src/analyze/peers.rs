//! What kept the threads from running that the slowest requests waited for.
//!
//! Yields [`Peers`], from the longest wait of each of these requests: the cause of a wait for another thread
//! is what that thread did meanwhile.

use guestscope_contract::Account;

use super::{cause::Cause, slow::Slow};
use crate::phase::{Blame, Stopper};

/// Part of the waits' time from which on it is said what the other threads did.
const MUCH: f64 = 0.25;

/// What the other threads did for most of the time for which they were kept from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The account of their time.
    pub account: Account,
    /// What had stopped them, if anything had.
    pub stopped_by: Option<Stopper>,
    /// Time of it, ns.
    pub ns: u64,
    /// Time of the requests' longest waits in all, ns.
    pub of_ns: u64,
}

impl Peers {
    /// Those of the requests that one cause dominates; none where it explains little of their waits.
    pub fn of(slowest: &[Slow], cause: Cause) -> Option<Self> {
        let dominated = slowest.iter().filter(|slow| slow.dominant() == Some(cause));
        let waits = dominated.filter_map(|slow| slow.longest_wait.as_ref());
        let (mut of_ns, mut found) = (0_u64, Vec::<Peers>::new());
        for wait in waits.filter(|wait| Cause::Account(wait.account) == cause) {
            of_ns = of_ns.saturating_add(wait.blocked_ns);
            let Some(Blame { account, stopped_by, ns, .. }) = wait.blame else { continue };
            match found.iter_mut().find(|one| (one.account, one.stopped_by) == (account, stopped_by)) {
                Some(one) => one.ns = one.ns.saturating_add(ns),
                None => found.push(Peers { account, stopped_by, ns, of_ns: 0 }),
            }
        }
        let most = found.into_iter().max_by_key(|one| one.ns)?;
        (most.ns > 0 && most.ns as f64 >= of_ns as f64 * MUCH).then_some(Peers { of_ns, ..most })
    }
}
