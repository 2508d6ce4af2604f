//! Properties of the ledger: it conserves time under any events, in any order, doubled, lost and with clocks
//! that step back. It tests no BPF code.

use proptest::{array::UniformArrayStrategy, collection::vec, prelude::*};

use super::*;
use crate::Distance;

#[path = "lives_tests.rs"]
mod lives;

const CPU: usize = Account::Cpu as usize;
const RUNQ: usize = Account::Runq as usize;

fn born(now_ns: u64, state: u8) -> Ledger {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(now_ns, state, 0);
    ledger
}

/// From any CPU to this one, between caches.
fn on(cpu: u16) -> Arrival {
    Arrival { cpu, distance: Distance::Node as u8 }
}

fn sum(ledger: &Ledger) -> u64 {
    ledger.accounts.iter().sum()
}

/// All migrations; here they are all between caches.
fn migrations(ledger: &Ledger) -> u32 {
    let [smt, cache, node, remote] = ledger.migrations;
    assert_eq!([smt, cache, remote], [0; 3]);
    node
}

/// Events of a ledger. The clock is carried beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    OutRunnable,
    OutBlocked { account: u8, syscall: u16 },
    Waking { waker: u32 },
    Wakeup,
    In { cpu: u16 },
    Limit(ThrottleClock),
    Throttled(ThrottleClock),
}

impl Event {
    fn apply(self, ledger: &mut Ledger, now_ns: u64) {
        match self {
            Event::OutRunnable => ledger.out_runnable(now_ns),
            Event::OutBlocked { account, syscall } => ledger.out_blocked(now_ns, account, syscall),
            Event::Waking { waker } => ledger.waking(now_ns, waker),
            Event::Wakeup => ledger.wakeup(now_ns),
            Event::In { cpu } => ledger.switched_in(now_ns, on(cpu)),
            Event::Limit(clock) => ledger.limit(clock),
            Event::Throttled(clock) => ledger.throttled(now_ns, clock),
        }
    }

    fn is_out(self) -> bool {
        matches!(self, Event::OutRunnable | Event::OutBlocked { .. })
    }

    /// Whether this event is a transition of such a ledger.
    fn is_transition(self, before: &Ledger, now_ns: u64) -> bool {
        match self {
            Event::Waking { .. } => false,
            Event::Wakeup => before.state == BLOCKED,
            Event::Limit(_) => before.state == RUNNABLE || before.state == LIMITED,
            Event::Throttled(clock) => {
                let grew = clock.ns > before.throttle_clock_ns && now_ns > before.since_ns;
                before.state == LIMITED && before.group == clock.group && grew
            }
            Event::OutRunnable | Event::OutBlocked { .. } | Event::In { .. } => true,
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::OutRunnable),
        (any::<u8>(), any::<u16>()).prop_map(|(account, syscall)| Event::OutBlocked { account, syscall }),
        (0..ACCOUNTS as u8, 0..512_u16).prop_map(|(account, syscall)| Event::OutBlocked { account, syscall }),
        any::<u32>().prop_map(|waker| Event::Waking { waker }),
        Just(Event::Wakeup),
        (0..4_u16).prop_map(|cpu| Event::In { cpu }),
        any_clock().prop_map(Event::Limit),
        any_clock().prop_map(Event::Throttled),
    ]
}

/// A throttle clock of any value, which may step back.
fn any_clock() -> impl Strategy<Value = ThrottleClock> {
    (0..3_u64, 0..20_000_000_u64).prop_map(|(group, ns)| ThrottleClock { group, ns })
}

/// Events with the distance to the clock before: mostly forward, at times back by up to 5 us, as between two
/// CPUs. A lost event is one that is not drawn; a doubled one is drawn here.
fn any_history() -> impl Strategy<Value = Vec<(Event, i64)>> {
    let distance = prop_oneof![3 => 0..2_000_000_i64, 1 => -5_000..5_000_i64, 1 => Just(0_i64)];
    vec((any_event(), distance, prop::bool::weighted(0.1)), 0..80).prop_map(|drawn| {
        let doubled = |(event, distance, twice): (Event, i64, bool)| {
            std::iter::once((event, distance)).chain(twice.then_some((event, 0)))
        };
        drawn.into_iter().flat_map(doubled).collect()
    })
}

proptest! {
    #[test]
    fn time_is_conserved_under_any_events(
        start_ns in 10_000..1_000_000_000_u64,
        state in RUNNING..=LIMITED,
        history in any_history(),
        later_ns in 0..1_000_000_u64,
    ) {
        let mut ledger = born(start_ns, state);
        let (mut clock_ns, mut latest_ns) = (start_ns, start_ns);
        let (mut outs, mut backwards) = (0, 0);
        for (event, distance) in history {
            clock_ns = clock_ns.saturating_add_signed(distance);
            let before = ledger;
            event.apply(&mut ledger, clock_ns);
            let moved = event.is_transition(&before, clock_ns);
            // The throttled part of a wait ends anywhere in it.
            let settles = moved && !matches!(event, Event::Limit(_) | Event::Throttled(_));
            latest_ns = if settles { latest_ns.max(clock_ns) } else { latest_ns.max(ledger.since_ns) };
            outs += u32::from(event.is_out());
            backwards += u32::from(settles && clock_ns < before.since_ns);

            prop_assert_eq!(sum(&ledger), ledger.since_ns - start_ns, "charged up to since_ns, no more, no less");
            prop_assert!(ledger.is_whole());
            let torn = Ledger { since_ns: ledger.since_ns + 1, ..ledger };
            prop_assert!(!torn.is_whole());
            prop_assert!(before.accounts.iter().zip(ledger.accounts).all(|(before, now)| *before <= now));
            prop_assert_eq!(ledger.sequence, before.sequence + u32::from(moved));
            prop_assert!(ledger.since_ns >= before.since_ns);
            prop_assert_eq!(ledger.voluntary + ledger.involuntary, outs);
            prop_assert_eq!(ledger.backwards, backwards);
            prop_assert!(ledger.wakeups <= ledger.voluntary + 1 && ledger.missed <= ledger.sequence);
            prop_assert!(ledger.wakeup_delay_ns >= before.wakeup_delay_ns);

            let copy = ledger;
            let accounts = ledger.accounts_at(latest_ns + later_ns);
            prop_assert_eq!(copy, ledger, "looking changes nothing");
            prop_assert_eq!(accounts.iter().sum::<u64>(), latest_ns + later_ns - start_ns);
        }
    }

    #[test]
    fn what_a_reader_sees_only_grows(
        history in any_history(), first_ns in 0..3_000_000_u64, then_ns in 0..3_000_000_u64,
    ) {
        let mut ledger = born(10_000, RUNNING);
        let mut clock_ns = 10_000_u64;
        for (event, distance) in history {
            clock_ns = clock_ns.saturating_add_signed(distance);
            event.apply(&mut ledger, clock_ns);
            let first_ns = clock_ns.saturating_sub(5_000) + first_ns;
            let (first, then) = (ledger.accounts_at(first_ns), ledger.accounts_at(first_ns + then_ns));
            prop_assert!(first.iter().zip(then).all(|(first, then)| *first <= then));
        }
    }

    #[test]
    fn a_damaged_ledger_is_read_without_panic(
        state in prop_oneof![any::<u8>(), EMPTY..=LIMITED], account in any::<u8>(),
        since_ns in any::<u64>(), woken_ns in any::<u64>(), now_ns in any::<u64>(),
        accounts in UniformArrayStrategy::<_, [u64; ACCOUNTS]>::new(prop_oneof![any::<u64>(), Just(u64::MAX)]),
    ) {
        let ledger = Ledger { since_ns, woken_ns, state, account, accounts, ..Ledger::EMPTY };
        let later = ledger.accounts_at(now_ns);
        let added = |sums: [u64; ACCOUNTS]| sums.iter().fold(0_u64, |sum, ns| sum.wrapping_add(*ns));
        let open_ns = if (RUNNING..=LIMITED).contains(&state) { now_ns.saturating_sub(since_ns) } else { 0 };
        prop_assert_eq!(added(later).wrapping_sub(added(accounts)), open_ns);
    }
}
