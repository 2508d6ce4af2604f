//! Evidence for a finding: the longest wait inside each of the slowest requests, of its largest cause if it
//! has one.
//!
//! The parts of an excess contain this wait already; it names the thread behind it.

use std::collections::HashMap;

use guestscope_contract::ACCOUNTS;

use super::{
    Summary,
    event_loop::Polls,
    slow::{LikeIt, Slow},
    tally::Standing,
};
use crate::phase::{Request, Wait};

/// A slow request whose waits are read.
struct Seen<'a> {
    slow: &'a mut Slow,
    /// Its waits by the account with the largest part of each.
    sums: [LikeIt; ACCOUNTS],
    /// Its waits in poll, which are told together.
    polls: Option<Polls>,
}

impl Summary {
    /// Reads the waits of the run, in any order, and keeps the longest of each of the slowest requests; and
    /// once more the requests, if some of those waited in poll: an event loop waits for several at once.
    ///
    /// # Errors
    /// The first error of a reading.
    pub fn add_waits<E, I>(
        &mut self,
        requests: impl FnOnce() -> Result<I, E>,
        waits: impl Iterator<Item = Result<Wait, E>>,
    ) -> Result<(), E>
    where
        I: Iterator<Item = Result<Request, E>>,
    {
        let slow = self.groups.iter_mut().flat_map(|group| &mut group.slowest);
        let mut slow: HashMap<u64, Seen> = slow.map(|slow| (slow.id, Seen::new(slow))).collect();
        if slow.values().any(|seen| seen.polls.is_some()) {
            for request in requests()? {
                let request = request?;
                if Standing::of(&request) == Standing::Process {
                    continue;
                }
                if let Some(root) = request.phases.first() {
                    let polls = slow.values_mut().filter_map(|seen| seen.polls.as_mut());
                    polls.for_each(|polls| polls.arrived(root));
                }
            }
        }
        for wait in waits {
            let wait = wait?;
            slow.values_mut().filter_map(|seen| seen.polls.as_mut()).for_each(|polls| polls.look_at(&wait));
            if let Some(seen) = wait.root.and_then(|root| slow.get_mut(&root)) {
                seen.add(wait);
            }
        }
        slow.into_values().for_each(Seen::finish);
        Ok(())
    }
}

impl<'a> Seen<'a> {
    fn new(slow: &'a mut Slow) -> Self {
        let polls = slow.polls();
        Self { slow, sums: [LikeIt::default(); ACCOUNTS], polls }
    }

    fn add(&mut self, wait: Wait) {
        let (account, ns) = wait.mainly();
        let sum = &mut self.sums[account as usize];
        sum.count += 1;
        sum.ns = sum.ns.saturating_add(ns);
        if !self.polls.as_mut().is_some_and(|polls| polls.take(&wait)) {
            self.keep_longest(wait, None);
        }
    }

    fn keep_longest(&mut self, wait: Wait, given_to: Option<u32>) {
        let rank = |wait: &Wait| (self.slow.is_of_largest(wait), wait.duration_ns);
        // Among equals the first one, so that the order within a millisecond does not matter.
        if self.slow.longest_wait.as_ref().is_none_or(|longest| rank(longest) < rank(&wait)) {
            (self.slow.longest_wait, self.slow.given_to) = (Some(wait), given_to);
        }
    }

    fn finish(mut self) {
        let told = self.polls.take().map(|mut polls| polls.settle()).unwrap_or_default();
        for told in told {
            self.keep_longest(told.wait, told.given_to);
        }
        let longest = self.slow.longest_wait.as_ref();
        self.slow.waits_like_it =
            longest.map(|longest| self.sums[longest.mainly().0 as usize]).unwrap_or_default();
    }
}
