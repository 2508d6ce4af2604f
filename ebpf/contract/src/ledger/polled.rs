//! The object of a wait in poll, select or epoll: an estimate, by the next read.
//!
//! Such a wait is for many descriptors at once, and the descriptor that ended it is not seen. A thread that
//! then receives over a socket, without having left its CPU in between, most likely waited for that. The time
//! stays in account `poll`. This costs nothing at a context switch: the ledger still holds the data of the
//! last wait. A read after an edge is not used for a wait before it.

use super::{Ledger, RUNNING};
use crate::Account;

impl Ledger {
    /// The thread has received over a socket: the length of its last wait, ns, if that was in poll. 0 if
    /// asked again before another such wait, and after a preemption in between.
    #[inline(always)]
    pub fn take_polled(&mut self) -> u64 {
        if self.state != RUNNING || self.account != Account::Poll as u8 || self.ready_ns < self.left_ns {
            return 0;
        }
        // The field has no meaning while the thread runs, except here.
        self.account = Account::Net as u8;
        self.ready_ns.wrapping_sub(self.left_ns)
    }

    /// An edge: a wait before it is of another phase than what is received after it.
    #[inline(always)]
    pub fn forget_polled(&mut self) {
        if self.state == RUNNING && self.account == Account::Poll as u8 {
            self.account = Account::Net as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use crate::{
        Account,
        ledger::{Arrival, Ledger, RUNNING},
    };

    const HERE: Arrival = Arrival { cpu: 0, distance: 0 };

    /// Waits for `ns` in this account.
    fn waits(ledger: &mut Ledger, now_ns: &mut u64, account: Account, ns: u64) {
        *now_ns += 1;
        ledger.out_blocked(*now_ns, account as u8, 7);
        *now_ns += ns;
        ledger.waking(*now_ns, 2);
        *now_ns += 1;
        ledger.wakeup(*now_ns);
        *now_ns += 1;
        ledger.switched_in(*now_ns, HERE);
    }

    fn running() -> (Ledger, u64) {
        let mut ledger = Ledger::EMPTY;
        ledger.begin(1, RUNNING, 0);
        (ledger, 1)
    }

    #[test]
    fn a_wait_is_taken_once_and_only_by_what_follows_it() {
        let (mut ledger, mut now_ns) = running();
        assert_eq!(ledger.take_polled(), 0);
        waits(&mut ledger, &mut now_ns, Account::Poll, 1000);
        assert_eq!([ledger.take_polled(), ledger.take_polled()], [1000, 0]);
        // Another wait in between, one after which it was preempted, and one that is not over.
        waits(&mut ledger, &mut now_ns, Account::Poll, 10);
        waits(&mut ledger, &mut now_ns, Account::Other, 10);
        assert_eq!(ledger.take_polled(), 0);
        waits(&mut ledger, &mut now_ns, Account::Poll, 10);
        ledger.out_runnable(now_ns + 1);
        ledger.switched_in(now_ns + 2, HERE);
        assert_eq!(ledger.take_polled(), 0);
        ledger.out_blocked(now_ns + 3, Account::Poll as u8, 7);
        assert_eq!(ledger.take_polled(), 0);
    }

    #[test]
    fn an_edge_forgets_a_wait_that_is_over_and_none_that_is_open() {
        let (mut ledger, mut now_ns) = running();
        waits(&mut ledger, &mut now_ns, Account::Poll, 10);
        ledger.forget_polled();
        assert_eq!(ledger.take_polled(), 0);
        ledger.out_blocked(now_ns + 1, Account::Poll as u8, 7);
        ledger.forget_polled();
        assert_eq!(ledger.accounts_at(now_ns + 3)[Account::Poll as usize], 12);
    }

    proptest! {
        /// Whatever events come, in any order, some left out: never more than was charged to `poll`.
        #[test]
        fn no_more_is_taken_than_was_waited(events in vec((0..6_u8, 0..1000_u64), 0..200)) {
            let (mut ledger, mut now_ns) = running();
            let mut taken_ns = 0;
            for (event, ns) in events {
                now_ns += ns;
                match event {
                    0 => ledger.out_blocked(now_ns, Account::Poll as u8, 7),
                    1 => ledger.out_runnable(now_ns),
                    2 => ledger.waking(now_ns, 2),
                    3 => ledger.wakeup(now_ns),
                    4 => ledger.switched_in(now_ns, HERE),
                    _ => taken_ns += ledger.take_polled(),
                }
                prop_assert!(taken_ns <= ledger.accounts[Account::Poll as usize], "{taken_ns} of {ledger:?}");
                prop_assert!(ledger.is_whole());
            }
        }
    }
}
