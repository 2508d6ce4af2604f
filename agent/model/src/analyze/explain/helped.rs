//! Waits of helpers as evidence: threads of the process that waited for a CPU, a disk or quota while the
//! request spun or waited.
//!
//! Yields [`HelperWaits`] by thread. Only waits above the threshold are known, as in `helper_wait` itself,
//! and times of several threads overlap, so they do not add up to the part.

use std::cmp::Reverse;

use crate::phase::Wait;

use super::{
    culprit::Guilt,
    waits::{self, By},
};

/// Maximum number of threads that are distinguished; waits of further threads are dropped.
const THREADS: usize = 64;

/// Waits of one helper within a phase of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperWaits {
    /// Thread ID in the initial namespace.
    pub tid: u32,
    /// Waits.
    pub count: u64,
    /// Time for which it could not run within the phase, ns.
    pub ns: u64,
    /// Waits by the other side, most of the time first.
    pub by: Vec<By>,
}

pub(super) fn add(helpers: &mut Vec<HelperWaits>, wait: &Wait, ns: u64, guilty: &[Guilt]) {
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
    for (culprit, ns) in guilty {
        waits::add(&mut helper.by, culprit, *ns, 0);
    }
}

pub(super) fn settle(helpers: &mut [HelperWaits]) {
    helpers.sort_by_key(|helper| (Reverse(helper.ns), helper.tid));
    for helper in helpers {
        waits::settle(&mut helper.by);
    }
}
