//! What was behind the waits of one cause, over all explained requests.
//!
//! Yields [`Behind`], from one walk through the requests.

use std::ops::RangeInclusive;

use guestscope_contract::Account;

use super::{
    By, Case,
    culprit::Culprit,
    ending::WORTH,
    explained::Explained,
    whose::{Circle, Whose},
};
use crate::analyze::cause::Cause;

/// Mean time of waits that ask for Python's interpreter lock in turn, ns: its default interval, and the way
/// back to the CPU.
const TURN_NS: RangeInclusive<u64> = 5_000_000..=5_600_000;
/// Fewer such waits may be anything.
const TURNS: u64 = 3;

/// The waits of one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Waits by culprit, most of the time first. For helpers: what their own waits were for.
    pub by: Vec<OfGroup>,
    /// Their time, ns.
    pub total_ns: u64,
    /// Number of long waits.
    pub waits: u64,
}

/// Waits on one culprit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfGroup {
    /// Whose process had the CPU, in waits for one. A server of several processes can have the same one among
    /// its siblings and, in its own requests, as itself.
    pub group: Option<Whose>,
    /// The waits.
    pub by: By,
}

impl Behind {
    /// Time for which processes of each group had the CPU, the longest first, ns.
    pub fn used_ns(&self) -> Vec<(Whose, u64)> {
        let of = |group: Whose| {
            let theirs = self.by.iter().filter(|one| one.group == Some(group));
            (group, sum(theirs.map(|one| one.by.ns)))
        };
        let mut used: Vec<(Whose, u64)> = Whose::ALL.into_iter().map(of).filter(|(_, ns)| *ns > 0).collect();
        used.sort_by_key(|&(group, ns)| (std::cmp::Reverse(ns), group));
        used
    }

    /// Whether waits are known, and none of them was for a device.
    pub(super) fn is_without_devices(&self) -> bool {
        let is_device = |one: &OfGroup| matches!(one.by.culprit, Culprit::Device { .. });
        self.waits > 0 && !self.by.iter().any(is_device)
    }

    /// Whether threads that were waited for had no CPU for much of the time.
    pub(super) fn is_of_queued(&self) -> bool {
        let is_queued =
            |one: &&OfGroup| matches!(one.by.culprit, Culprit::Kept(blame) if blame.account == Account::Runq);
        let kept_ns = sum(self.by.iter().filter(is_queued).map(|one| one.by.kept_ns));
        kept_ns > 0 && kept_ns as f64 >= self.total_ns as f64 * WORTH
    }

    /// Whether most waits timed out as those of threads that ask for Python's interpreter lock do.
    pub(super) fn is_by_turns(&self) -> bool {
        let held = || self.by.iter().filter(|one| matches!(one.by.culprit, Culprit::Held { .. }));
        let (count, ns) = (sum(held().map(|one| one.by.count)), sum(held().map(|one| one.by.ns)));
        count >= TURNS && TURN_NS.contains(&(ns / count))
    }

    /// Whether more than half of the time was for culprits of a kind, of several of them together.
    pub(super) fn is_mostly(&self, is_it: impl Fn(&Culprit) -> bool) -> bool {
        let ns = sum(self.by.iter().filter(|one| is_it(&one.by.culprit)).map(|one| one.by.ns));
        ns > self.total_ns / 2
    }

    /// Whether threads that are not observed held the lock of the address space for most of the time.
    pub(super) fn is_from_outside(&self, circle: &Circle) -> bool {
        self.is_mostly(|culprit| matches!(culprit, Culprit::AddressSpace { tid } if !circle.has(*tid)))
    }

    /// What more than half of the time was for.
    pub(super) fn most(&self) -> Option<&Culprit> {
        let first = self.by.first().filter(|one| one.by.ns > self.total_ns / 2);
        first.map(|one| &one.by.culprit)
    }

    fn add(&mut self, one: &By, group: Option<Whose>) {
        self.total_ns = self.total_ns.saturating_add(one.ns);
        let is_it = |known: &mut OfGroup| known.group == group && known.by.culprit.takes(&one.culprit);
        match self.by.iter_mut().find_map(|known| is_it(known).then_some(known)) {
            Some(OfGroup { by, .. }) => by.add(one),
            None => self.by.push(OfGroup { group, by: one.clone() }),
        }
    }
}

/// A sum of numbers that a damaged folder may have made.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

impl Explained {
    /// What was behind the long waits of one cause in the explained requests.
    pub fn behind(&self, cause: Cause, circle: &Circle) -> Behind {
        let mut behind = Behind::default();
        for case in &self.cases {
            let parts = case.phases.iter().flat_map(|phase| &phase.parts);
            for part in parts.filter(|part| part.cause == cause && part.excess_ns > 0) {
                let helpers = part.evidence.helpers.iter();
                let own = part.evidence.waits.iter().filter(|_| !matches!(cause, Cause::Helper(_)));
                let of_helpers = helpers.clone().filter(|_| matches!(cause, Cause::Helper(_)));
                let counts =
                    own.clone().map(|waits| waits.count).chain(of_helpers.map(|helper| helper.count));
                behind.waits = behind.waits.saturating_add(sum(counts));
                for one in own.flat_map(|waits| &waits.by).chain(helpers.flat_map(|helper| &helper.by)) {
                    behind.add(one, circle.group(&one.culprit, case));
                }
            }
        }
        behind.by.sort_by_key(|one| std::cmp::Reverse(one.by.ns));
        behind
    }
}

impl Circle {
    /// Whose process a culprit is to a request; none unless it had the CPU.
    pub fn group(&self, culprit: &Culprit, case: &Case) -> Option<Whose> {
        let Culprit::Ran { pid, .. } = culprit else { return None };
        Some(self.whose(*pid, case.pid))
    }
}
