//! Waits under a quota: each case alone, and a simulator of a group whose quota runs out while its threads
//! wait.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::ledger::{Arrival, RUNNING};

const GROUP: u64 = 0xffff_8880_0000_1000;

fn clock(ns: u64) -> ThrottleClock {
    ThrottleClock { group: GROUP, ns }
}

/// Preempted at 1,000 with the clock at 50.
fn waiting() -> Ledger {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(1_000, RUNNING, 0);
    ledger.out_runnable(1_000);
    ledger.limit(clock(50));
    ledger
}

/// Switched in on its last CPU.
fn arrive(ledger: &mut Ledger, now_ns: u64, clock: ThrottleClock) {
    ledger.throttled(now_ns, clock);
    ledger.switched_in(now_ns, Arrival { cpu: 0, distance: 0 });
}

fn split(ledger: &Ledger) -> (u64, u64, u32) {
    let [runq, throttled] =
        [Account::Runq, Account::Throttled].map(|account| ledger.accounts[account as usize]);
    (runq, throttled, ledger.throttles)
}

#[test]
fn what_the_clock_grew_by_is_throttled_and_the_rest_is_not() {
    let mut ledger = waiting();
    arrive(&mut ledger, 1_900, clock(650));
    assert_eq!(split(&ledger), (300, 600, 1));
}

#[test]
fn a_clock_that_stood_still_leaves_a_wait_for_a_cpu() {
    let mut ledger = waiting();
    arrive(&mut ledger, 1_900, clock(50));
    assert_eq!(split(&ledger), (900, 0, 0));
}

#[test]
fn no_wait_is_throttled_for_longer_than_it_lasted() {
    let mut ledger = waiting();
    arrive(&mut ledger, 1_900, clock(5_000));
    assert_eq!(split(&ledger), (0, 900, 1));
}

#[test]
fn a_clock_that_went_back_says_nothing() {
    let mut ledger = waiting();
    arrive(&mut ledger, 1_900, clock(49));
    assert_eq!(split(&ledger), (900, 0, 0));
}

#[test]
fn the_clock_of_another_group_says_nothing() {
    let mut ledger = waiting();
    arrive(&mut ledger, 1_900, ThrottleClock { group: GROUP + 64, ns: 650 });
    assert_eq!(split(&ledger), (900, 0, 0));
}

#[test]
fn a_wait_that_was_never_limited_is_a_wait_for_a_cpu() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(1_000, RUNNING, 0);
    ledger.out_runnable(1_000);
    arrive(&mut ledger, 1_900, clock(650));
    assert_eq!(split(&ledger), (900, 0, 0));
}

#[test]
fn a_wait_that_moves_to_another_cpu_goes_on_under_that_ones_clock() {
    let mut ledger = waiting();
    ledger.throttled(1_400, clock(250));
    ledger.limit(ThrottleClock { group: GROUP + 64, ns: 9_000 });
    arrive(&mut ledger, 1_900, ThrottleClock { group: GROUP + 64, ns: 9_100 });
    assert_eq!(split(&ledger), (600, 300, 1));
}

#[test]
fn running_and_blocked_threads_are_not_limited() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(1_000, RUNNING, 0);
    ledger.limit(clock(50));
    assert_eq!((ledger.state, ledger.sequence), (RUNNING, 1));
    ledger.out_blocked(1_100, Account::Lock as u8, 202);
    let before = ledger;
    ledger.limit(clock(50));
    ledger.throttled(1_200, clock(100));
    assert_eq!(ledger, before);
}

proptest! {
    /// The group is throttled in stretches as the kernel keeps them; a thread waits at any times. The overlap
    /// is throttled.
    #[test]
    fn a_wait_is_split_as_the_groups_clock_runs(
        stretches in vec((1..900_u64, 1..900_u64), 1..20), waits in vec((1..700_u64, 1..700_u64), 1..20),
    ) {
        let mut edges = vec![];
        let mut at = 0;
        for (free, throttled) in stretches {
            edges.push((at + free, at + free + throttled));
            at += free + throttled;
        }
        let throttled_before = |now: u64| -> u64 {
            edges.iter().map(|&(begin, end)| now.clamp(begin, end) - begin).sum()
        };
        let mut ledger = Ledger::EMPTY;
        ledger.begin(0, RUNNING, 0);
        let (mut now, mut truth) = (0, (0, 0));
        for (run, wait) in waits {
            now += run;
            ledger.out_runnable(now);
            ledger.limit(clock(throttled_before(now)));
            let throttled = throttled_before(now + wait) - throttled_before(now);
            now += wait;
            arrive(&mut ledger, now, clock(throttled_before(now)));
            truth = (truth.0 + wait - throttled, truth.1 + throttled);
        }
        prop_assert_eq!((split(&ledger).0, split(&ledger).1), truth);
        prop_assert_eq!(ledger.accounts_at(now).iter().sum::<u64>(), now);
    }
}
