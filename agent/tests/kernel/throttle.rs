//! Waiting without quota, compared with the group's `cpu.stat`.

use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, up_to_three_times},
    book::Entry,
    harness::Case,
    seen::Seen,
};

pub(crate) fn bounds(seen: &Seen, name: &str, number: u64) -> (u64, u64) {
    (seen.book.fact(&format!("{name}_low_{number}")), seen.book.fact(&format!("{name}_high_{number}")))
}

#[rstest]
#[case::alone("quota")]
#[case::of_a_group_around_it("quota_nested")]
fn a_lack_of_quota_is_throttled_to_the_last_episode(#[case] name: &'static str) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        let phase = seen.request(1);
        let periods = bounds(&seen, "periods", 1);
        assert!(periods.0 >= 5, "the quota ran out: {periods:?}");
        let throttled_ns = phase.accounts.get(Account::Throttled);
        agreement::time(name, "throttled", throttled_ns, bounds(&seen, "throttled_ns", 1), 0);
        // The kernel counts periods. A thread that exceeded the quota (by a late tick) also waits in the next
        // period, in a single wait.
        agreement::count(name, "throttles", phase.counts.throttle, (periods.0.div_ceil(2), periods.1));
    });
}

/// Each CPU has its own throttle clock for the group, and a wait may end under another clock than it began.
/// `cpu.stat` adds the clocks of all CPUs, also of queues without waiting threads, so it is the upper bound.
/// The lower bound is the thread's own `run_delay`, since its group has priority over all others; measured 88
/// to 99 % of it. Mixed-up clocks would lose every second wait.
#[test]
fn a_thread_that_is_moved_while_it_is_throttled_stays_so() {
    up_to_three_times(|| {
        let name = "quota_moved";
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        let phase = seen.request(1);
        let counts = phase.counts;
        let moves = counts.migrate_smt + counts.migrate_llc + counts.migrate_node + counts.migrate_remote;
        agreement::count(name, "moves", moves, (10, u64::MAX));
        let throttled_ns = phase.accounts.get(Account::Throttled);
        let delay = seen.book.row(1).bounds(Entry::RunDelay);
        let most_ns = delay.1.min(bounds(&seen, "throttled_ns", 1).1);
        agreement::time(name, "throttled", throttled_ns, (delay.0 * 8 / 10, most_ns), 0);
    });
}

/// A wait in a group that no longer exists when the wait ends counts as throttled. The group's `cpu.stat` is
/// gone, too, so the thread's own `run_delay` is compared; its group has priority over all others.
#[test]
fn a_thread_that_is_taken_out_of_its_group_while_it_is_throttled_was_so() {
    up_to_three_times(|| {
        let name = "quota_left";
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        let phase = seen.request(1);
        let delay = seen.book.row(1).bounds(Entry::RunDelay);
        assert!(delay.0 >= 8 * 20_000_000, "it was without quota: {delay:?} ns");
        let throttled_ns = phase.accounts.get(Account::Throttled);
        agreement::time(name, "throttled", throttled_ns, (delay.0 * 9 / 10, delay.1), 0);
    });
}

#[test]
fn two_that_share_a_quota_are_throttled_together() {
    up_to_three_times(|| {
        let name = "quota_shared";
        let Some(seen) = compared(Case::new(name), name, 2, 0) else { return };
        for number in [1, 2] {
            let phase = seen.request(number);
            let periods = bounds(&seen, "periods", number);
            let (low_ns, high_ns) = bounds(&seen, "throttled_ns", number);
            assert!(periods.0 >= 5, "the quota ran out: {periods:?}");
            // The group is throttled from its first thread's stop to its last thread's start, so no thread is
            // throttled for longer; one of them is stopped later, by its stay on the CPU.
            let throttled_ns = phase.accounts.get(Account::Throttled);
            let what = format!("throttled {number}");
            agreement::time(name, &what, throttled_ns, (low_ns * 9 / 10, high_ns), 0);
        }
    });
}
