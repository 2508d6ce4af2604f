//! What others did that the slowest requests waited for: other threads, and other phases on the same thread.
//!
//! Yields [`Peers`], from the longest wait of each of these requests: the cause of a wait for another thread
//! is what that thread did meanwhile; and [`TakenBy`], for phases that were suspended.

use guestscope_contract::Account;

use super::{cause::Cause, slow::Slow};
use crate::phase::{Blame, Stopper};
use crate::untrusted::Untrusted;

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

/// What had the threads of suspended requests for most of that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBy {
    /// Name of the phase, of other requests; none for code outside of phases.
    pub phase: Option<Untrusted>,
    /// Its mean time on the thread of one of these requests meanwhile, ns.
    pub ns: u64,
}

impl TakenBy {
    /// What had the threads of requests suspended for most of their excess; none where little is known.
    pub fn of(slowest: &[Slow]) -> Option<Self> {
        let dominated: Vec<&Slow> =
            slowest.iter().filter(|slow| slow.dominant() == Some(Cause::Suspended)).collect();
        let excess_ns: i128 = dominated.iter().map(|slow| i128::from(slow.excess_by(Cause::Suspended))).sum();
        let mut found: Vec<TakenBy> = Vec::new();
        for holder in dominated.iter().filter_map(|slow| slow.holder.as_deref()) {
            match found.iter_mut().find(|one| one.phase == holder.phase) {
                Some(one) => one.ns = one.ns.saturating_add(holder.ns),
                None => found.push(TakenBy { phase: holder.phase.clone(), ns: holder.ns }),
            }
        }
        let most = found.into_iter().max_by_key(|one| one.ns)?;
        let mean_ns = most.ns / dominated.len() as u64;
        (most.ns as f64 >= excess_ns as f64 * MUCH).then_some(TakenBy { ns: mean_ns, ..most })
    }
}
