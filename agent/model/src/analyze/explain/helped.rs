//! Waits of helpers as evidence: threads of the process kept from running while the request spun or waited.
//!
//! Yields [`HelperWaits`] by thread. Only waits above the threshold are known, as in `helper_wait` itself,
//! and times of several threads overlap: they add up to no part.

use std::cmp::Reverse;

use crate::phase::Wait;

use super::waits::{self, By, Culprit};

/// Threads that are told apart; the waits of all further ones are not kept.
const THREADS: usize = 64;

/// What one helper went through within a phase of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperWaits {
    /// Its number in the initial namespace.
    pub tid: u32,
    /// Waits.
    pub count: u64,
    /// For how long it was kept from running within the phase, ns.
    pub ns: u64,
    /// Waits by the other side, most of the time first.
    pub by: Vec<By>,
}

pub(super) fn add(helpers: &mut Vec<HelperWaits>, wait: &Wait, ns: u64, whom: &Culprit) {
    let tid = wait.thread.tid;
    let index = match helpers.iter().position(|helper| helper.tid == tid) {
        Some(index) => index,
        None if helpers.len() < THREADS => {
            helpers.push(HelperWaits { tid, count: 0, ns: 0, by: Vec::new() });
            helpers.len() - 1
        }
        None => return,
    };
    let helper = &mut helpers[index];
    helper.count += 1;
    helper.ns = helper.ns.saturating_add(ns);
    waits::add(&mut helper.by, whom, ns, 0);
}

pub(super) fn settle(helpers: &mut [HelperWaits]) {
    helpers.sort_by_key(|helper| (Reverse(helper.ns), helper.tid));
    for helper in helpers {
        waits::settle(&mut helper.by);
    }
}
