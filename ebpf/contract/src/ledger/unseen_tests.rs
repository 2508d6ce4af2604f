//! A thread whose return to the CPU was seen by no hook: the use of the kernel's own stamps.
//!
//! The property over whole lives is in `ledger/lives_tests.rs`; here is each case alone.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    Account, Distance,
    ledger::{Arrival, RUNNABLE},
};

/// Our clock minus the kernel's.
const CLOCKS_NS: u64 = 1_000_000;

/// From any CPU to this one.
fn on(cpu: u16) -> Arrival {
    Arrival { cpu, distance: Distance::Smt as u8 }
}

/// The kernel's stamps of a stay that began at `arrived_ns` of our clock, with `queued_ns` of waiting for
/// CPUs before.
fn stamps(arrived_ns: u64, queued_ns: u64) -> Stamps {
    Stamps { arrived: arrived_ns - CLOCKS_NS, queued_ns }
}

/// A thread that was seen on a CPU from 2,000,000 to 2,000,100, and blocks in futex from then on.
fn blocked() -> Ledger {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(1_999_000, RUNNABLE, 0);
    ledger.switched_in(2_000_000, on(0));
    ledger.leaving(2_000_100, stamps(2_000_000, 1_000), on(0));
    ledger.out_blocked(2_000_100, Account::Lock as u8, 202);
    ledger
}

fn accounts(ledger: &Ledger) -> [u64; 3] {
    [Account::Cpu, Account::Runq, Account::Lock].map(|account| ledger.accounts[account as usize])
}

#[test]
fn a_waking_that_was_not_seen_is_found_in_the_time_queued() {
    let mut ledger = blocked();
    // Woken at 2,000,400, on the CPU at 2,000,700, neither seen; leaves at 2,001,000.
    ledger.leaving(2_001_000, stamps(2_000_700, 1_300), on(1));
    ledger.out_runnable(2_001_000);
    assert_eq!(accounts(&ledger), [100 + 300, 1_000 + 300, 300]);
    assert_eq!((ledger.missed, ledger.migrations[0], ledger.queued_ns), (1, 1, 1_300));
    assert_eq!(ledger.wakeups, 1);
}

#[test]
fn a_waking_that_was_not_seen_is_found_at_the_switch_in() {
    let mut ledger = blocked();
    ledger.waker = 9;
    ledger.queued_unseen(2_000_700, 2_000_400 - CLOCKS_NS);
    assert_eq!(ledger.waker, 0, "the earlier waker did not wake it now");
    ledger.switched_in(2_000_700, on(0));
    assert_eq!(accounts(&ledger), [100, 1_000 + 300, 300]);
    assert_eq!((ledger.missed, ledger.wakeups), (0, 1));
}

#[test]
fn an_end_that_was_not_seen_is_that_of_the_last_stay() {
    // Preempted for no time, and back at 2,000,100. Cases: whether that was seen, start of the last stay by
    // the stamps, its length; accounts and the end.
    let cases: [(bool, u64, u64, [u64; 3], u64); 5] = [
        (true, 2_000_100, 300, [100 + 300, 1_000, 0], 2_000_400),
        (false, 2_000_150, 300, [100 + 300, 1_000 + 50, 0], 2_000_450),
        // The stay cannot have lasted so long.
        (true, 2_000_100, 5_000, [100 + 900, 1_000, 0], 2_001_000),
        // It left and came back unseen: the time in between was no stay.
        (true, 2_000_600, 300, [100 + 300, 1_000, 0], 2_000_400),
        // The kernel keeps no such sums.
        (true, 2_000_100, 0, [100, 1_000, 0], 2_000_100),
    ];
    for (is_seen, arrived_ns, stay_ns, expected, end_ns) in cases {
        let mut ledger = blocked();
        ledger.state = RUNNING;
        ledger.out_runnable(2_000_100);
        if is_seen {
            ledger.switched_in(2_000_100, on(0));
        }
        let mut unknown = Ledger { arrival_offset_ns: 0, ..ledger };
        let found_ns = ledger.ended_unseen(2_001_000, stamps(arrived_ns, 1_050), stay_ns, on(0));
        assert_eq!((accounts(&ledger), found_ns), (expected, end_ns), "{is_seen} {stay_ns}");
        assert_eq!(ledger.accounts.iter().sum::<u64>(), found_ns - ledger.born_ns);
        // Without a known offset of the kernel's clock, life is told up to the last event.
        assert_eq!(unknown.ended_unseen(2_001_000, stamps(arrived_ns, 1_050), 300, on(0)), 2_000_100);
    }
}

#[test]
fn a_waking_that_was_seen_is_believed() {
    let mut ledger = blocked();
    ledger.waking(2_000_390, 9);
    ledger.wakeup(2_000_400);
    ledger.leaving(2_001_000, stamps(2_000_700, 1_300), on(0));
    ledger.out_runnable(2_001_000);
    assert_eq!(accounts(&ledger), [100 + 300, 1_000 + 310, 290]);
}

#[test]
fn an_edge_looks_and_the_next_switch_comes_to_the_same() {
    let mut ledger = blocked();
    let mut copy = ledger;
    copy.arrived_unseen(2_000_800, stamps(2_000_700, 1_300), on(0));
    let seen = copy.accounts_at(2_000_800);
    ledger.leaving(2_001_000, stamps(2_000_700, 1_300), on(0));
    let later = ledger.accounts_at(2_001_000);
    assert_eq!(later[Account::Cpu as usize] - seen[Account::Cpu as usize], 200);
    assert!(seen.iter().zip(later).all(|(seen, later)| *seen <= later));
}

/// A driver's call asks without a copy of the ledger.
#[test]
fn who_asks_when_it_came_is_told_what_the_next_switch_will_find() {
    let mut ledger = blocked();
    let came_ns = ledger.unseen_arrival_ns(2_000_800, stamps(2_000_700, 1_300));
    assert_eq!(came_ns, Some(2_000_700));
    ledger.leaving(2_001_000, stamps(2_000_700, 1_300), on(0));
    assert_eq!((ledger.state, ledger.since_ns), (RUNNING, 2_000_700));
    assert_eq!(ledger.unseen_arrival_ns(2_001_000, stamps(2_000_700, 1_300)), None, "it is known");
}

#[test]
fn without_stamps_the_wait_goes_on() {
    let mut ledger = blocked();
    assert_eq!(ledger.unseen_arrival_ns(2_000_800, Stamps::default()), None);
    ledger.leaving(2_001_000, Stamps::default(), on(0));
    ledger.out_runnable(2_001_000);
    assert_eq!((accounts(&ledger), ledger.missed), ([100, 1_000, 900], 1));
}

#[test]
fn an_arrival_is_neither_after_now_nor_before_the_last_event() {
    let mut ledger = blocked();
    ledger.arrived_unseen(2_001_000, stamps(2_001_001, 1_000), on(1));
    assert_eq!(
        (ledger.state, ledger.missed, ledger.migrations[0], ledger.since_ns),
        (RUNNING, 1, 1, 2_001_000)
    );
    let mut ledger = blocked();
    ledger.arrived_unseen(2_001_000, stamps(2_000_000, 1_000), on(0));
    assert_eq!((ledger.state, ledger.missed, ledger.since_ns), (RUNNING, 1, 2_000_100));
}

#[test]
fn the_smaller_difference_of_the_clocks_counts_and_a_drift_is_followed() {
    let mut ledger = blocked();
    assert_eq!(ledger.arrival_offset_ns, CLOCKS_NS);
    let mut stay = |late_ns: i64| {
        let arrived_ns = ledger.since_ns + 10_000_000;
        ledger.switched_in(arrived_ns, on(0));
        ledger.leaving(arrived_ns + 100, stamps(arrived_ns.saturating_add_signed(-late_ns), 1_000), on(0));
        ledger.out_runnable(arrived_ns + 100);
        ledger.arrival_offset_ns.wrapping_sub(CLOCKS_NS).cast_signed()
    };
    assert_eq!(stay(1_600), 100, "a stay whose stamp was early moves it by a sixteenth");
    assert_eq!(stay(0), 0);
    assert_eq!(stay(-8_000_000), -500_000, "a stamp of a later stay moves it no further");
    let back = (0..200).map(|_| stay(160)).last();
    assert!(back.is_some_and(|offset_ns| (0..=160).contains(&offset_ns)), "{back:?}");
}

/// One event of a ledger, with a clock that may step back and stamps of any clock.
fn happen(ledger: &mut Ledger, what: u8, now_ns: u64, arrived: u64, queued_ns: u64) {
    let stamps = Stamps { arrived, queued_ns };
    match what {
        0 => ledger.switched_in(now_ns, on(1)),
        1 => ledger.out_runnable(now_ns),
        2 => ledger.out_blocked(now_ns, Account::Lock as u8, 202),
        3 => ledger.waking(now_ns, 9),
        4 => ledger.wakeup(now_ns),
        5 => ledger.queued_unseen(now_ns, arrived),
        6 => ledger.arrived_unseen(now_ns, stamps, on(2)),
        _ => ledger.leaving(now_ns, stamps, on(3)),
    }
}

proptest! {
    #[test]
    fn time_is_conserved_whatever_the_stamps_say(
        history in vec((0..10_u8, -5_000..100_000_i64, -200_000..200_000_i64, any::<bool>(), any::<u64>()), 0..60),
    ) {
        let mut ledger = Ledger::EMPTY;
        ledger.begin(2_000_000, RUNNABLE, 0);
        let (mut clock_ns, mut latest_ns) = (2_000_000_u64, 2_000_000_u64);
        for (what, distance, stamp, is_near, any) in history {
            clock_ns = clock_ns.saturating_add_signed(distance);
            latest_ns = latest_ns.max(clock_ns);
            // Near our clock, so that it is believed at times; or any number.
            let near = clock_ns.saturating_add_signed(stamp) - CLOCKS_NS;
            let before = ledger;
            let queued_ns = if any % 2 == 0 { any % 100_000 } else { any };
            happen(&mut ledger, what, clock_ns, if is_near { near } else { any }, queued_ns);
            prop_assert_eq!(ledger.accounts.iter().sum::<u64>(), ledger.since_ns - 2_000_000);
            prop_assert!(before.accounts.iter().zip(ledger.accounts).all(|(before, now)| *before <= now));
            prop_assert!(before.since_ns <= ledger.since_ns && ledger.since_ns <= latest_ns);
            prop_assert!(before.sequence <= ledger.sequence);
            prop_assert!(before.state == ledger.state || before.sequence < ledger.sequence);
            prop_assert_eq!(ledger.accounts_at(latest_ns).iter().sum::<u64>(), latest_ns - 2_000_000);
        }
    }
}

#[test]
fn the_last_switch_in_may_be_missing_without_being_known() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    ledger.out_runnable(10);
    assert_eq!(ledger.missed, 0);
    ledger.out_runnable(30);
    assert_eq!(
        (ledger.missed, ledger.accounts[Account::Cpu as usize], ledger.accounts[Account::Runq as usize]),
        (1, 10, 20)
    );
}
