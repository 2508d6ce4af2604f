//! Time of phases on other threads than the phase around them.
//!
//! Such a phase has time that its parent never had, while the parent waits for it: an event loop in poll
//! while a worker computes. Exact sums: what the parent loses is what the nested phase gets.

use guestscope_contract::ACCOUNTS;

use super::{FOR_OTHERS, Split};

impl Split {
    /// The time of a nested phase, of which `taken` came out of this one: with the rest of its time on
    /// threads, up to `most_ns`, in place of this one's waits for others. Which accounts and which waits that
    /// is, is not known: all of them in proportion.
    ///
    /// Numbers beside the time go along in the same part. Those that `taken` took from this one were of
    /// another thread, and come back; the guest's pauses are the same for both.
    pub(in crate::analyze) fn give_way(&mut self, nested: &Split, taken: &Split, most_ns: u64) -> Split {
        if nested.accounts == taken.accounts {
            return *taken;
        }
        let rest: [u64; ACCOUNTS] = std::array::from_fn(|at| nested.accounts[at] - taken.accounts[at]);
        let waits = FOR_OTHERS.map(|account| self.accounts[account as usize]);
        let passes = u128::from(most_ns).min(sum(&rest)).min(sum(&waits));
        if passes == 0 {
            return *taken;
        }
        let part = |ns: u64, of: u128| (u128::from(ns) * passes.min(of) / of.max(1)) as u64;
        let (all_rest, all) = (sum(&rest), nested.total_ns());
        let mut moved = taken.zip(nested, |taken, own| taken + part(own.saturating_sub(taken), all_rest));
        moved.pause = taken.pause;
        (moved.suspended, moved.queue, moved.handoff) = (taken.suspended, taken.queue, taken.handoff);
        for (at, ns) in portions(rest, passes).into_iter().enumerate() {
            moved.accounts[at] = taken.accounts[at] + ns;
        }
        let Self { accounts, suspended, queue, handoff, kept_on_cpu, kept_waiting, pause, .. } = *self;
        let back = self.zip(taken, |own, taken| own.saturating_add(part(taken, all)));
        *self = Self { accounts, suspended, queue, handoff, kept_on_cpu, kept_waiting, pause, ..back };
        for (account, ns) in FOR_OTHERS.into_iter().zip(portions(waits, passes)) {
            self.accounts[account as usize] -= ns;
        }
        moved
    }

    /// So much of this one's time on threads, of all accounts in proportion, for a nested phase that was on
    /// no thread meanwhile. Numbers beside the time go along in the same part, but for the guest's pauses.
    pub(in crate::analyze) fn lend(&mut self, ns: u64) -> Split {
        let all = sum(&self.accounts);
        let lent_ns = u128::from(ns).min(all);
        if lent_ns == 0 {
            return Split::default();
        }
        let part = |own: u64| (u128::from(own) * lent_ns / all) as u64;
        let accounts = portions(self.accounts, lent_ns);
        let lent = Split { accounts, suspended: 0, queue: 0, handoff: 0, pause: 0, ..self.map(part) };
        *self = self.zip(&lent, |own, lent| own - lent);
        lent
    }
}

fn sum(of: &[u64]) -> u128 {
    of.iter().map(|ns| u128::from(*ns)).sum()
}

/// Parts of these in proportion to them, none larger than they are: `total` in all, which is no more than
/// their sum.
fn portions<const N: usize>(of: [u64; N], total: u128) -> [u64; N] {
    let all = sum(&of).max(1);
    let mut parts = of.map(|ns| (u128::from(ns) * total / all) as u64);
    let mut left = total - sum(&parts).min(total);
    for (part, ns) in parts.iter_mut().zip(of) {
        // Less than one nanosecond of each was cut.
        let more = left.min(u128::from(ns - *part));
        *part += more as u64;
        left -= more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account;
    use proptest::prelude::*;

    use super::*;

    fn split(times: &[(Account, u64)]) -> Split {
        let mut split = Split::default();
        for &(account, ns) in times {
            split.accounts[account as usize] = ns;
        }
        split
    }

    #[test]
    fn numbers_beside_the_time_go_along() {
        let mut around = Split { steal: 3, pause: 2, ..split(&[(Account::Poll, 100), (Account::Cpu, 10)]) };
        let nested = Split { steal: 5, pause: 2, own_code: 40, ..split(&[(Account::Cpu, 90)]) };
        let taken = around.take(&nested);
        let moved = around.give_way(&nested, &taken, 80);
        assert_eq!((moved.accounts, moved.steal, moved.own_code), (nested.accounts, 5, 40));
        assert_eq!(around.accounts, split(&[(Account::Poll, 20)]).accounts);
        // 80 of the 90 ns are of another thread: so much of its steal comes back.
        assert_eq!((around.steal, around.pause + moved.pause), (2, 2));
    }

    #[test]
    fn a_wait_that_is_not_for_it_does_not_vanish_whole() {
        let mut around = split(&[(Account::Poll, 10), (Account::Lock, 10)]);
        let nested = split(&[(Account::Cpu, 10)]);
        let moved = around.give_way(&nested, &Split::default(), 10);
        assert_eq!(around.accounts, split(&[(Account::Poll, 5), (Account::Lock, 5)]).accounts);
        assert_eq!(moved.accounts, nested.accounts);
    }

    proptest! {
        #[test]
        fn nothing_is_made_or_lost(
            around in prop::array::uniform11(0..=u64::MAX / 16),
            nested in prop::array::uniform11(0..=u64::MAX / 16),
            most_ns: u64,
        ) {
            let mut around = Split { accounts: around, steal: u64::MAX, ..Split::default() };
            let nested = Split { accounts: nested, steal: u64::MAX, ..Split::default() };
            let before = around.total_ns();
            let taken = around.take(&nested);
            let moved = around.give_way(&nested, &taken, most_ns);
            prop_assert_eq!(around.total_ns() + moved.total_ns(), before);
            prop_assert!(moved.accounts.iter().zip(nested.accounts).all(|(part, whole)| *part <= whole));
        }

        #[test]
        fn what_is_lent_is_of_the_lender(accounts in prop::array::uniform11(0..=u64::MAX / 16), ns: u64) {
            let before = Split { accounts, steal: 900, pause: 7, suspended: 5, ..Split::default() };
            let mut around = before;
            let lent = around.lend(ns);
            prop_assert_eq!(lent.total_ns(), u128::from(ns).min(sum(&accounts)));
            prop_assert_eq!(around.zip(&lent, |own, lent| own + lent), before);
            prop_assert_eq!((around.pause, around.suspended), (7, 5));
        }
    }
}
