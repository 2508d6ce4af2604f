//! The part of a wait for a CPU in which the thread's group was out of quota.
//!
//! The kernel keeps, for each group on each CPU, a sum of the time in which the group or an ancestor was
//! throttled there: its throttle clock. Its growth during a wait is the throttled part of that wait; the rest
//! is `runq`. The BPF programs choose the clock that this kernel has.

use super::{LIMITED, Ledger, RUNNABLE, clocks::ThrottleClock};
use crate::Account;

impl Ledger {
    /// The wait for a CPU that has begun, or goes on elsewhere, may be throttled from here on.
    #[inline(always)]
    pub fn limit(&mut self, clock: ThrottleClock) {
        if self.state != RUNNABLE && self.state != LIMITED {
            return;
        }
        self.group = clock.group;
        self.throttle_clock_ns = clock.ns;
        self.become_(LIMITED);
    }

    /// Charges the throttled part of the wait, before the thread is switched in or waits on another CPU. If
    /// the group is not the one at the start, its clock is no measure, and the wait is `runq`.
    #[inline(always)]
    pub fn throttled(&mut self, now_ns: u64, clock: ThrottleClock) {
        if self.state != LIMITED || self.group != clock.group {
            return;
        }
        let mut throttled_ns = clock.ns.wrapping_sub(self.throttle_clock_ns);
        if throttled_ns.cast_signed() <= 0 || now_ns <= self.since_ns {
            return;
        }
        // The two clocks are read some microseconds apart.
        let open_ns = now_ns.wrapping_sub(self.since_ns);
        if throttled_ns > open_ns {
            throttled_ns = open_ns;
        }
        // Once for each wait, however often it is moved.
        if self.wait_throttled_ns() == 0 {
            self.throttles = self.throttles.wrapping_add(1);
        }
        let account = &mut self.accounts[Account::Throttled as usize];
        *account = account.wrapping_add(throttled_ns);
        self.since_ns = self.since_ns.wrapping_add(throttled_ns);
        self.throttle_clock_ns = clock.ns;
        self.become_(LIMITED);
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
