//! Takes requests, keeps the calls of collectives by process and the times of steps by name.
//!
//! Bounded: what finds no room is counted. All processes keep the same number of first calls, so that those
//! of one still meet those of the others.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    arrivals,
    findings::{COLLECTIVES, Collective, Judged, Straggler, Terms, Verdict},
    process::{Process, collective},
    steps,
};
use crate::phase::Request;

/// Calls that are kept in all, 16 bytes each, and up to as much again while lists grow.
const MOST_CALLS: usize = 2 << 20;
/// Processes that are told apart: a large machine's, with all those that load data.
const MOST_PROCESSES: usize = 1024;

/// Collects what all processes did.
#[derive(Debug)]
pub struct Ranks {
    processes: BTreeMap<(usize, u32), Process>,
    /// Calls kept in all.
    kept: usize,
    /// Calls of one name that each process may keep.
    most_each: usize,
    left_out: u64,
}

impl Default for Ranks {
    fn default() -> Self {
        Self { processes: BTreeMap::new(), kept: 0, most_each: MOST_CALLS, left_out: 0 }
    }
}

impl Ranks {
    /// Takes a request of the folder of this number. `offset_ns` brings its times to the clock by which they
    /// compare with those of other folders.
    pub fn add(&mut self, folder: usize, request: &Request, offset_ns: i64) {
        let Some(root) = request.phases.first() else { return };
        let id = (folder, root.thread.tgid);
        if !self.processes.contains_key(&id) && self.processes.len() >= MOST_PROCESSES {
            self.left_out += request.phases.iter().filter(|phase| collective(phase).is_some()).count() as u64;
            return;
        }
        let process = self.processes.entry(id).or_insert_with(|| Process::new(folder, id.1));
        let (kept, left_out) = process.take(request, offset_ns, self.most_each);
        self.kept += kept;
        self.left_out += left_out;
        while self.kept > MOST_CALLS {
            self.keep_fewer();
        }
    }

    /// Halves what each process may keep. Calls come nearly in the order of their times.
    fn keep_fewer(&mut self) {
        self.most_each /= 2;
        for calls in self.processes.values_mut().flat_map(|process| &mut process.calls) {
            let over = calls.len().saturating_sub(self.most_each);
            calls.truncate(self.most_each);
            calls.shrink_to_fit();
            self.kept -= over;
            self.left_out += over as u64;
        }
    }

    /// What the calls show.
    pub fn judged(self, terms: &Terms) -> Judged {
        let mut processes: Vec<Process> = self.processes.into_values().filter(Process::has_calls).collect();
        // Requests come in the order of their ends.
        processes.iter_mut().flat_map(|process| &mut process.calls).for_each(|calls| calls.sort_unstable());
        let judged = |at: usize| arrivals::judged(at, &processes, terms);
        let collectives: Vec<Collective> = (0..COLLECTIVES.len()).filter_map(judged).collect();
        let is_coarse = processes.iter().any(|process| terms.of(process).is_coarse);
        let straggler = straggler(&collectives, &processes, is_coarse);
        let mut clocks: Vec<usize> = processes.iter().map(|process| terms.of(process).clock).collect();
        clocks.sort_unstable();
        clocks.dedup();
        let ranks = processes.into_iter().map(Process::into_rank).collect();
        Judged { ranks, collectives, straggler, clocks: clocks.len(), left_out: self.left_out, is_coarse }
    }
}

/// The process that was late to the collective at which most time could have been saved.
fn straggler(collectives: &[Collective], processes: &[Process], is_coarse: bool) -> Option<Straggler> {
    let saved = |(at, one): (usize, &Collective)| {
        let Verdict::Late(rank) = one.verdict else { return None };
        let margin_ns = one.arrival(rank)?.margin_ns;
        Some((i128::from(margin_ns) * i128::from(one.calls), at, rank, margin_ns))
    };
    // The first one of those that are equal.
    let most = collectives.iter().enumerate().filter_map(saved).max_by_key(|one| (one.0, Reverse(one.1)));
    let (_, collective, rank, margin_ns) = most?;
    let steps = steps::compared(processes, rank, margin_ns, is_coarse);
    Some(Straggler { rank, collective, steps })
}

#[cfg(test)]
impl Ranks {
    /// Calls that it keeps.
    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// The most that it keeps.
    pub(super) const MOST: usize = MOST_CALLS;
}
