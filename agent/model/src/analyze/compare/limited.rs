//! Which difference of limits explains a cause of a difference of times.

use guestscope_contract::Account;

use super::{compared::Compared, limits::LimitDifference};
use crate::{
    analyze::{cause::Cause, limited::concerned},
    limits::{Kind, Limit},
};

/// Part of a wait for other threads that these stood in queues, from which on their mask is behind it.
const ENOUGH: f64 = 0.25;

/// Waits that other threads end, which may have stood in a queue themselves.
const fn waits_for_threads(cause: Cause) -> bool {
    matches!(cause, Cause::Account(Account::Poll | Account::Lock | Account::Other))
}

impl Compared {
    /// The difference of limits behind a cause: the slower side has the tighter one, and it was hit there.
    /// Fewer CPUs are a limit that every queue hits.
    pub fn limited(&self, cause: Cause) -> Option<&LimitDifference> {
        let (explained, _) = self.explained()?;
        let is_slower = explained.difference_ns.value > 0.0;
        let more_ns = explained.cause(cause)?.difference_ns.value.abs();
        self.limits.iter().find(|difference| {
            let LimitDifference { baseline, platform } = difference;
            let (slow, fast) = if is_slower { (platform, baseline) } else { (baseline, platform) };
            let is_it = if concerned(cause).contains(&slow.kind) {
                slow.kind == Kind::Cpus || slow.hit.is_some()
            } else {
                waits_for_threads(cause) && slow.queued_ns(self.side.requests.1) >= more_ns * ENOUGH
            };
            is_it && slow.size < fast.size
        })
    }

    /// The limit of the slower side that a difference is about.
    pub fn hit_of<'a>(&self, difference: &'a LimitDifference) -> Option<&'a Limit> {
        let is_slower = self.explained().is_some_and(|(explained, _)| explained.difference_ns.value > 0.0);
        if is_slower { difference.platform.hit.as_ref() } else { difference.baseline.hit.as_ref() }
    }
}
