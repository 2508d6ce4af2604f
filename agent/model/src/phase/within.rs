//! Time of a thread inside any phases.
//!
//! Yields accounts. No time counts twice where phases overlap, or where the start of one becomes known only
//! later.

use super::{accounts::Accounts, snapshot::Snapshot};

/// A thread's accounts at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    time_ns: u64,
    accounts: Accounts,
}

impl Point {
    fn of(now: &Snapshot) -> Self {
        Self { time_ns: now.time_ns, accounts: now.accounts }
    }
}

/// One thread's time inside phases.
#[derive(Debug, Default)]
pub(crate) struct Within {
    /// Since when it is inside; none if outside.
    since: Option<Point>,
    /// Time before this is counted.
    until: Point,
    spent: Accounts,
}

impl Within {
    /// Time inside phases, by account, up to when it was last outside.
    pub(crate) fn spent(&self) -> Accounts {
        self.spent
    }

    /// The same up to this snapshot, if it is inside now.
    pub(crate) fn spent_by(&self, now: &Snapshot) -> Accounts {
        let mut spent = self.spent;
        if let Some(since) = self.since {
            for ((sum, now), before) in spent.0.iter_mut().zip(now.accounts.0).zip(since.accounts.0) {
                *sum = sum.saturating_add(now.saturating_sub(before));
            }
        }
        spent
    }

    /// The thread is inside a phase from then on.
    pub(crate) fn begins(&mut self, at: &Snapshot) {
        let at = if at.time_ns < self.until.time_ns { self.until } else { Point::of(at) };
        if self.since.is_none_or(|since| at.time_ns < since.time_ns) {
            self.since = Some(at);
        }
    }

    /// The thread is outside of all phases from then on. Without a snapshot its time inside is not counted.
    pub(crate) fn ends(&mut self, at: Option<&Snapshot>) {
        let Some((since, at)) = self.since.take().zip(at) else { return };
        let mut accounts = at.accounts;
        for (now, before) in accounts.0.iter_mut().zip(since.accounts.0) {
            *now = now.saturating_sub(before);
        }
        accounts.fit(at.time_ns.saturating_sub(since.time_ns));
        self.spent.add(&accounts);
        self.until = Point::of(at);
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account::{Cpu, Lock};

    use super::*;

    fn at(time_ns: u64, cpu: u64) -> Snapshot {
        let mut now = Snapshot { time_ns, ..Snapshot::default() };
        (now.accounts.0[Cpu as usize], now.accounts.0[Lock as usize]) = (cpu, time_ns - cpu);
        now
    }

    fn spent(within: &Within) -> (u64, u64) {
        (within.spent().get(Cpu), within.spent().get(Lock))
    }

    #[test]
    fn a_phase_that_is_known_later_counts_once() {
        let mut within = Within::default();
        within.begins(&at(100, 10));
        within.ends(Some(&at(200, 60)));
        assert_eq!(spent(&within), (50, 50));
        // It was inside another phase throughout, as far as is known now.
        within.begins(&at(50, 5));
        within.begins(&at(300, 70));
        within.ends(Some(&at(400, 80)));
        assert_eq!(spent(&within), (70, 230));
    }

    #[test]
    fn an_end_of_which_nothing_is_known_adds_nothing() {
        let mut within = Within::default();
        within.begins(&at(100, 10));
        within.ends(None);
        within.ends(Some(&at(200, 60)));
        assert_eq!(spent(&within), (0, 0));
    }
}
