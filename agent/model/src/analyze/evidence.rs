//! Evidence for a finding: the longest wait inside each of the slowest requests, of its largest cause if it
//! has one.
//!
//! The parts of an excess contain this wait already; it names the thread behind it.

use std::collections::HashMap;

use guestscope_contract::ACCOUNTS;

use super::{
    Summary,
    slow::{LikeIt, Slow},
};
use crate::phase::Wait;

/// A slow request whose waits are read.
struct Seen<'a> {
    slow: &'a mut Slow,
    /// Its waits by the account with the largest part of each.
    sums: [LikeIt; ACCOUNTS],
}

impl Summary {
    /// Reads the waits of the run, in any order, and keeps the longest of each of the slowest requests.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn add_waits<E>(&mut self, waits: impl Iterator<Item = Result<Wait, E>>) -> Result<(), E> {
        let slow = self.groups.iter_mut().flat_map(|group| &mut group.slowest);
        let mut slow: HashMap<u64, Seen> =
            slow.map(|slow| (slow.id, Seen { slow, sums: [LikeIt::default(); ACCOUNTS] })).collect();
        for wait in waits {
            let wait = wait?;
            let Some(Seen { slow, sums }) = wait.root.and_then(|root| slow.get_mut(&root)) else { continue };
            let (account, ns) = wait.mainly();
            let sum = &mut sums[account as usize];
            sum.count += 1;
            sum.ns = sum.ns.saturating_add(ns);
            let rank = |wait: &Wait| (slow.is_of_largest(wait), wait.duration_ns);
            // Among equals the first one, so that the order within a millisecond does not matter.
            if slow.longest_wait.as_ref().is_none_or(|longest| rank(longest) < rank(&wait)) {
                slow.longest_wait = Some(wait);
            }
        }
        for Seen { slow, sums } in slow.into_values() {
            let longest = slow.longest_wait.as_ref();
            slow.waits_like_it = longest.map(|longest| sums[longest.mainly().0 as usize]).unwrap_or_default();
        }
        Ok(())
    }
}
