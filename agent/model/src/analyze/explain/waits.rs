//! Long waits as evidence: their number, length and culprits.
//!
//! Yields [`Waits`], in bounded memory however many come. A wait is split into its blocked time, its time
//! without quota and its time in the run queue, so that each account gets only its own time.

use std::cmp::Reverse;

use crate::phase::{Holder, Wait};

use super::{
    super::{cause::Cause, split::FOR_OTHERS},
    culprit::{Culprit, Guilt},
};

/// System calls that are distinguished.
const CALLS: usize = 8;
/// Longest waits that are kept.
const LONGEST: usize = 4;
/// Maximum number of distinguished culprits; further ones are [`Culprit::Others`].
const CULPRITS: usize = 32;
/// A wait shorter than its account's time divided by this is not counted: every wake-up takes some
/// microseconds to reach a CPU, and three waits that matter must not become hundreds.
const MATTERS: u64 = 200;
/// Waits may be longer than their part's time by its part of so many, and by this, ns.
const SLACK: u64 = 4;
const SLACK_NS: u64 = 100_000;

/// The waits on one culprit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The culprit.
    pub culprit: Culprit,
    /// Number of waits.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
    /// Time for which the thread of [`Culprit::Kept`] or [`Culprit::Given`], or the one that it waited for,
    /// could not run within the waits, ns.
    pub kept_ns: u64,
}

impl By {
    /// Whether nothing but the system call is known.
    pub const fn is_call(&self) -> bool {
        matches!(self.culprit, Culprit::Syscall(_))
    }

    /// Adds further waits on the same culprit.
    pub fn add(&mut self, more: &By) {
        self.count = self.count.saturating_add(more.count);
        self.ns = self.ns.saturating_add(more.ns);
        self.kept_ns = self.kept_ns.saturating_add(more.kept_ns);
    }
}

/// The part of one wait that belongs to the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Start, after that of the request, ns.
    pub after_ns: u64,
    /// Length, ns.
    pub ns: u64,
    /// The CPU that the thread got afterwards.
    pub cpu: u32,
    /// The system call that it waited in.
    pub syscall: Option<u32>,
    /// The thread that took the CPU from it while it was runnable.
    pub took_tid: Option<u32>,
    /// The culprit.
    pub culprit: Culprit,
}

/// The waits in one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InCall {
    /// Its number.
    pub syscall: u32,
    /// Its first argument, if all waits had the same.
    pub argument: Option<u64>,
    /// Their time, ns.
    pub ns: u64,
}

/// All waits of one phase, request and account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Number of waits that are a 200th of the account's time or more.
    pub count: u64,
    /// Time of all that were recorded, ns; what the account has beyond it were waits below the threshold.
    pub total_ns: u64,
    /// The longest ones, the longest first.
    pub longest: Vec<LongWait>,
    /// Waits by culprit, most of the time first.
    pub by: Vec<By>,
    /// System calls that they were in, most of the time first.
    pub calls: Vec<InCall>,
    least_ns: u64,
}

impl Waits {
    /// No waits yet, for an account with this much time.
    pub(super) const fn new(account_ns: u64) -> Self {
        let least_ns = account_ns / MATTERS;
        Self { count: 0, total_ns: 0, longest: Vec::new(), by: Vec::new(), calls: Vec::new(), least_ns }
    }

    /// What had the thread of a phase while it was suspended, for this long in all, ns.
    pub(super) fn of_holders<'a>(held_ns: u64, holders: impl Iterator<Item = &'a Holder>) -> Self {
        let mut waits = Self { total_ns: held_ns, ..Self::new(held_ns) };
        let mut left_ns = held_ns;
        for holder in holders {
            let culprit = Culprit::Phase { name: holder.phase.clone(), request: Some(holder.request) };
            let ns = holder.ns.min(left_ns);
            left_ns -= ns;
            waits.count += 1;
            add(&mut waits.by, &culprit, ns, 0);
        }
        if left_ns > 0 {
            add(&mut waits.by, &Culprit::Others, left_ns, 0);
        }
        waits.settle();
        waits
    }

    /// Adds a part of a wait: `ns` of it, from `after_ns` after the start of the request on; `guilty`: its
    /// culprits, the largest first.
    pub(super) fn add(&mut self, wait: &Wait, after_ns: u64, ns: u64, guilty: &[Guilt], kept_ns: u64) {
        self.total_ns = self.total_ns.saturating_add(ns);
        self.count += u64::from(ns >= self.least_ns);
        for (culprit, ns) in guilty {
            add(&mut self.by, culprit, *ns, kept_ns.min(*ns));
        }
        let culprit = guilty.first().map_or(&Culprit::Unknown, |(culprit, _)| culprit);
        if self.longest.len() < LONGEST || self.longest.last().is_some_and(|last| last.ns < ns) {
            let (cpu, syscall) = (wait.cpu, wait.syscall);
            let took_tid = Some(wait.replaced_by_tid).filter(|&tid| tid != 0 && wait.blocked_ns == 0);
            self.longest.push(LongWait { after_ns, ns, cpu, syscall, took_tid, culprit: culprit.clone() });
            self.longest.sort_by_key(|one| (Reverse(one.ns), one.after_ns));
            self.longest.truncate(LONGEST);
        }
    }

    /// Adds the time of a wait in its system call.
    pub(super) fn add_call(&mut self, wait: &Wait, ns: u64) {
        let Some(syscall) = wait.syscall else { return };
        if let Some(known) = self.calls.iter_mut().find(|call| call.syscall == syscall) {
            known.ns = known.ns.saturating_add(ns);
            known.argument = known.argument.filter(|argument| Some(*argument) == wait.argument);
        } else if self.calls.len() < CALLS {
            self.calls.push(InCall { syscall, argument: wait.argument, ns });
        }
    }

    pub(super) fn settle(&mut self) {
        // Many short ones: none of them is a 200th of the account's time.
        if self.count == 0 {
            self.count = self.by.iter().map(|by| by.count).sum();
        }
        self.calls.sort_by_key(|call| Reverse(call.ns));
        settle(&mut self.by);
    }

    /// The same, for a part of this cause with this time, ns. None if they are much longer than it: phases on
    /// other threads have the place of some of them, and which ones is not known.
    pub(super) fn settled(mut self, cause: Cause, ns: u64) -> Option<Self> {
        let is_for_others = FOR_OTHERS.iter().any(|account| cause == Cause::Account(*account));
        let most_ns = ns.saturating_add(ns / SLACK).saturating_add(SLACK_NS);
        self.settle();
        (!is_for_others || self.total_ns <= most_ns).then_some(self)
    }
}

/// Adds a wait to its culprit's.
pub(super) fn add(by: &mut Vec<By>, culprit: &Culprit, ns: u64, kept_ns: u64) {
    let has_room = by.len() < CULPRITS;
    let known = by.iter_mut().position(|one| one.culprit.takes(culprit));
    let known =
        known.or_else(|| by.iter().position(|one| one.culprit == Culprit::Others).filter(|_| !has_room));
    let index = known.unwrap_or_else(|| {
        let culprit = if has_room { culprit.clone() } else { Culprit::Others };
        by.push(By { culprit, count: 0, ns: 0, kept_ns: 0 });
        by.len() - 1
    });
    let one = &mut by[index];
    one.count += 1;
    one.ns = one.ns.saturating_add(ns);
    one.kept_ns = one.kept_ns.saturating_add(kept_ns);
}

/// The largest first; the rest stays in the order in which it came.
pub(super) fn settle(by: &mut [By]) {
    by.sort_by_key(|one| Reverse(one.ns));
}
