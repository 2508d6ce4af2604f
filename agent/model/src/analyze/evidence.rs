//! Evidence for a finding: the longest wait inside each of the slowest requests, of its largest cause if there
//! is one.
//!
//! The parts of an excess contain this wait already; it names the thread behind it.

use std::collections::HashMap;

use guestscope_contract::ACCOUNTS;

use super::{Summary, slow::Slow};
use crate::phase::Wait;

/// A slow request whose waits are read.
struct Seen<'a> {
    slow: &'a mut Slow,
    /// By the account with the largest part of a wait: number of them, and their time in it, ns.
    sums: [(u64, u64); ACCOUNTS],
}

impl Summary {
    /// Reads the waits of the run, in any order, and keeps the longest of each of the slowest requests.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn add_waits<E>(&mut self, waits: impl Iterator<Item = Result<Wait, E>>) -> Result<(), E> {
        let slow = self.groups.iter_mut().flat_map(|group| &mut group.slowest);
        let mut slow: HashMap<u64, Seen> =
            slow.map(|slow| (slow.id, Seen { slow, sums: [(0, 0); ACCOUNTS] })).collect();
        for wait in waits {
            let wait = wait?;
            let Some(Seen { slow, sums }) = wait.root.and_then(|root| slow.get_mut(&root)) else { continue };
            let (account, ns) = wait.mainly();
            let (count, sum_ns) = &mut sums[account as usize];
            (*count, *sum_ns) = (*count + 1, sum_ns.saturating_add(ns));
            let rank = |wait: &Wait| (slow.is_of_largest(wait), wait.duration_ns);
            // Among equals the first one, so that the order within a millisecond does not matter.
            if slow.longest_wait.as_ref().is_none_or(|longest| rank(longest) < rank(&wait)) {
                slow.longest_wait = Some(wait);
            }
        }
        for Seen { slow, sums } in slow.into_values() {
            let longest = slow.longest_wait.as_ref();
            slow.waits_like_it = longest.map_or((0, 0), |longest| sums[longest.mainly().0 as usize]);
        }
        Ok(())
    }
}
