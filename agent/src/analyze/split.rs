//! A request's time by cause: the eleven accounts of the threads, and the two ways to spend time on no thread.
//!
//! Yields [`Split`] for one interval and [`Sums`] for many. It adds and subtracts; it does not know phases.

use guestscope_ebpf::{ACCOUNTS, Account};

use crate::phase::{Phase, PhaseKind};

/// Number of causes.
pub const CAUSES: usize = ACCOUNTS + 2;

/// What time was spent on. Exclusive, like the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// On a thread.
    Account(Account),
    /// On no thread, between leave and enter.
    Suspended,
    /// Between the scheduled arrival and the begin.
    Queue,
}

impl Cause {
    /// All of them, in the order of [`Split`].
    pub fn all() -> impl Iterator<Item = Cause> {
        Account::ALL.into_iter().map(Cause::Account).chain([Cause::Suspended, Cause::Queue])
    }

    /// Its place in a [`Split`].
    pub const fn index(self) -> usize {
        match self {
            Cause::Account(account) => account as usize,
            Cause::Suspended => ACCOUNTS,
            Cause::Queue => ACCOUNTS + 1,
        }
    }

    /// The word in reports, columns and attributes.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Account(account) => account.name(),
            Cause::Suspended => "suspended",
            Cause::Queue => "queue",
        }
    }
}

/// Nanoseconds by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split(pub [u64; CAUSES]);

impl Split {
    /// Of a whole phase, with all that is nested in it.
    pub fn of(phase: &Phase) -> Self {
        let mut split = Self::default();
        if phase.kind == PhaseKind::Queue {
            split.0[Cause::Queue.index()] = phase.duration_ns;
        } else {
            split.0[..ACCOUNTS].copy_from_slice(&phase.accounts.0);
            split.0[Cause::Suspended.index()] = phase.suspended_ns;
        }
        split
    }

    /// Of one cause.
    pub const fn get(&self, cause: Cause) -> u64 {
        self.0[cause.index()]
    }

    /// Their sum. A folder may hold anything, so it cannot overflow.
    pub fn total_ns(&self) -> u128 {
        self.0.iter().map(|&ns| u128::from(ns)).sum()
    }

    /// Each cause with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::all().zip(self.0)
    }

    /// Adds another interval; stops at the largest number instead of wrapping.
    pub fn add(&mut self, other: &Split) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Takes from here what `wanted` asks for, as far as there is any, and returns it.
    pub(super) fn take(&mut self, wanted: &Split) -> Split {
        let mut taken = Split::default();
        for ((mine, want), got) in self.0.iter_mut().zip(wanted.0).zip(&mut taken.0) {
            *got = want.min(*mine);
            *mine -= *got;
        }
        taken
    }
}

/// Nanoseconds by cause over many intervals. Wide enough that no run can overflow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub [u128; CAUSES]);

impl Sums {
    /// Of one cause.
    pub const fn get(&self, cause: Cause) -> u128 {
        self.0[cause.index()]
    }

    /// Their sum.
    pub fn total_ns(&self) -> u128 {
        self.0.iter().sum()
    }

    /// Each cause with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u128)> + '_ {
        Cause::all().zip(self.0)
    }

    /// Adds an interval.
    pub fn add(&mut self, split: &Split) {
        for (mine, theirs) in self.0.iter_mut().zip(split.0) {
            *mine += u128::from(theirs);
        }
    }
}
