//! What an event loop waited for on behalf of one request, by hand-made waits. Thread 1 is the loop, 10 and
//! above are its workers, 90 is a client and 80 a peer in other processes; times are in ms.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{analyze::samples, phase::ThreadId};

const MS: u64 = 1_000_000;
/// The request under test: after its threads began.
const WITHIN: (u64, u64) = (MS / 4, 200 * MS);
/// The `id` of its outermost phase, and that of another one.
const OWN: u64 = 7;
const OTHER: u64 = 8;

const fn thread(tid: u32) -> ThreadId {
    ThreadId { tid, tgid: 1, born_ns: 0 }
}

/// A wait of a thread outside requests from one time to another, ended by `waker`.
fn wait(tid: u32, account: Account, (from, to): (u64, u64), waker: Option<u32>) -> Wait {
    Wait {
        thread: thread(tid),
        start_ns: from * MS,
        blocked_ns: (to - from) * MS,
        duration_ns: (to - from) * MS,
        account,
        waker_tid: waker,
        ..Wait::default()
    }
}

/// The loop polls for the request; without a waker its time limit ends that.
fn poll(from: u64, to: u64, waker: Option<u32>) -> Wait {
    let limit_ms = waker.is_none().then_some((to - from) as u32);
    Wait { root: Some(OWN), is_limited: true, limit_ms, ..wait(1, Account::Poll, (from, to), waker) }
}

/// A worker waits for work, at its own lock.
fn idle(tid: u32, from: u64, to: u64) -> Wait {
    Wait { argument: Some(tid.into()), ..wait(tid, Account::Lock, (from, to), Some(1)) }
}

/// All waits, and when other requests began.
#[derive(Clone, Debug, Default)]
struct Seen {
    waits: Vec<Wait>,
    arrivals: Vec<u64>,
}

/// What is told of a wait: the thread that had the work or ended it, whether it had that, and what delayed it
/// for how many ms.
type Words = (Option<u32>, bool, Option<(u32, Account, u32, u64)>);

impl Seen {
    fn told(&self) -> Vec<Told> {
        let mut polls = Polls::new(OWN, 1, vec![1], WITHIN, 1_024);
        for wait in &self.waits {
            polls.look_at(wait);
            assert!(wait.root != Some(OWN) || polls.take(wait));
        }
        let mut root = samples::Sample::new(1, 0, Vec::new()).build().phases.remove(0);
        (root.id, root.thread) = (OTHER, thread(1));
        for at in &self.arrivals {
            root.start_ns = at * MS;
            polls.arrived(&root);
        }
        polls.settle()
    }

    /// What is told of each own wait, in the order of time.
    fn words(&self) -> Vec<Words> {
        let word = |told: Told| {
            let delayed = told.wait.blame.map(|blame| (blame.tid, blame.account, blame.depth, blame.ns / MS));
            (told.given_to.or(told.wait.waker_tid), told.given_to.is_some(), delayed)
        };
        self.told().into_iter().map(word).collect()
    }
}

/// The request gives its work to thread 10, which sleeps; a client's requests end two of the waits, and
/// thread 11, which has the work of one of them, ends one.
fn server() -> Seen {
    let waits = vec![
        poll(1, 50, Some(90)),
        poll(53, 100, Some(90)),
        poll(104, 196, Some(10)),
        Wait { root: Some(OTHER), ..poll(102, 103, Some(11)) },
        Wait { duration_ns: MS / 2, blocked_ns: MS / 2, ..idle(10, 0, 1) },
        wait(10, Account::Sleep, (1, 195), None),
        idle(11, 0, 102),
        idle(11, 103, 300),
    ];
    Seen { waits, arrivals: vec![51, 101] }
}

const SLEPT: [Words; 3] = [
    (Some(10), true, Some((10, Account::Sleep, 1, 49))),
    (Some(10), true, Some((10, Account::Sleep, 1, 47))),
    (Some(10), true, Some((10, Account::Sleep, 1, 91))),
];
const BY_PEER: [Words; 3] = [(Some(80), false, None); 3];

#[test]
fn all_waits_are_for_the_worker_that_had_the_work() {
    assert_eq!(server().words(), SLEPT);
}

#[test]
fn a_worker_that_came_back_while_the_loop_ran_had_the_work_all_the_same() {
    let mut seen = server();
    seen.waits[2] = poll(104, 196, Some(90));
    seen.arrivals.push(197);
    seen.waits.push(idle(10, 198, 400));
    assert_eq!(seen.words(), SLEPT);
}

#[test]
fn work_that_goes_on_after_the_request_was_not_waited_for() {
    let mut seen = server();
    seen.waits[2] = poll(104, 196, Some(80));
    seen.waits[5] = wait(10, Account::Sleep, (1, 900), None);
    assert_eq!(seen.words(), BY_PEER);
}

/// A thread that waits for more before the wait ended did not end it: it had other work.
#[test]
fn work_that_ended_before_the_wait_was_not_waited_for() {
    let mut seen = server();
    seen.waits.truncate(4);
    seen.arrivals.clear();
    seen.waits[0] = poll(1, 100, Some(80));
    seen.waits[1] = poll(101, 102, Some(80));
    seen.waits[2] = poll(104, 196, Some(80));
    seen.waits.extend([idle(10, 0, 1), wait(10, Account::BlockIo, (1, 90), None), idle(10, 90, 300)]);
    assert_eq!(seen.words(), BY_PEER);
}

/// A timer of the loop itself ended the second wait.
#[test]
fn a_tick_in_between_is_nothing_that_the_request_waited_for() {
    let mut seen = server();
    seen.waits.truncate(3);
    seen.waits[1] = poll(53, 100, None);
    seen.waits[2] = poll(104, 196, Some(90));
    seen.arrivals = vec![51, 197];
    let timed_out: Vec<bool> = seen.told().iter().map(|told| told.wait.timed_out()).collect();
    assert_eq!(timed_out, [false, true, false]);
}

/// Only a wait that lasted up to its limit was ended by that.
#[test]
fn a_packet_from_elsewhere_is_no_time_limit() {
    let mut seen = server();
    seen.waits.truncate(3);
    seen.waits[2] = Wait { limit_ms: Some(100), ..poll(104, 124, None) };
    let told = seen.told();
    assert!(told.iter().all(|told| !told.wait.timed_out() && told.wait.waker_tid.is_none()), "{told:?}");
}

/// What a worker waits for is told as far as it is known: a third thread, nothing where it computes, and not
/// Python's interpreter lock that the loop itself had.
#[rstest]
#[case::third(Some((Some(12), Some(Account::Sleep))), Some((12, Account::Sleep, 2)))]
#[case::lock(Some((Some(12), None)), Some((10, Account::Lock, 1)))]
#[case::computes(None, None)]
#[case::interpreter(Some((Some(1), None)), None)]
fn what_delayed_the_worker(
    #[case] waits: Option<(Option<u32>, Option<Account>)>,
    #[case] expected: Option<(u32, Account, u32)>,
) {
    let mut seen = server();
    seen.waits.remove(5);
    if let Some((waker, behind)) = waits {
        let blame =
            behind.map(|account| Blame { tid: 12, account, stopped_by: None, ns: 194 * MS, depth: 1 });
        let one = wait(10, Account::Lock, (1, 195), waker);
        seen.waits.push(Wait { blame, is_limited: true, ..one });
    }
    for (waker, is_given, delayed) in seen.words() {
        let delayed = delayed.map(|(tid, account, depth, _)| (tid, account, depth));
        assert_eq!((waker, is_given, delayed), (Some(10), true, expected));
    }
}

/// A thread that the request started has its work, too.
#[test]
fn a_new_thread() {
    let mut seen = server();
    seen.waits.remove(4);
    seen.waits[4].thread.born_ns = MS / 2;
    assert_eq!(seen.words(), SLEPT);
}

/// Nothing was given away: arrivals ended waits that were for what ended a later one.
#[rstest]
#[case::peer(Some(80))]
#[case::limit(None)]
fn waits_that_arrivals_ended(#[case] last: Option<u32>) {
    let mut seen = server();
    seen.waits.drain(4..6);
    seen.waits[2] = poll(104, 196, last);
    assert_eq!(seen.words(), [(last, false, None); 3]);
    assert!(seen.told().iter().all(|told| told.wait.timed_out() == last.is_none()));
    // A thread with one request at a time: nothing is known but what ended each wait.
    let alone = Seen { waits: seen.waits[..3].to_vec(), arrivals: Vec::new() };
    let wakers: Vec<_> = alone.words().into_iter().map(|(waker, ..)| waker).collect();
    assert_eq!(wakers, [Some(90), Some(90), last]);
}

#[test]
fn what_came_while_the_loop_ran_has_no_name() {
    let mut seen = server();
    seen.waits.truncate(3);
    seen.waits[2] = poll(104, 196, Some(90));
    seen.arrivals.push(197);
    assert_eq!(seen.words(), [(None, false, None); 3]);
    assert!(seen.told().iter().all(|told| !told.wait.timed_out()));
}

/// Work that was given away behind the arrival of another request may be of that one, unless its end is the
/// request's.
#[rstest]
#[case::ends_the_last_wait(Some(11), true)]
#[case::ends_another(Some(80), false)]
fn work_behind_an_arrival(#[case] last: Option<u32>, #[case] is_own: bool) {
    let waits = vec![
        poll(1, 100, Some(90)),
        poll(103, 150, Some(if is_own { 90 } else { 11 })),
        poll(153, 196, last),
        idle(11, 0, 102),
        wait(11, Account::Sleep, (102, if is_own { 195 } else { 149 }), None),
        idle(11, 198, 400),
    ];
    let seen = Seen { waits, arrivals: vec![101, 151] };
    let given: Vec<bool> = seen.words().into_iter().map(|(_, is_given, _)| is_given).collect();
    assert_eq!(given, [false, is_own, is_own]);
}

/// The work of another request: that one came first between the same two waits.
#[test]
fn the_work_of_another_request() {
    let mut seen = server();
    seen.waits.truncate(4);
    seen.waits[2] = poll(104, 196, Some(80));
    seen.waits.extend([idle(11, 0, 52), wait(11, Account::Sleep, (52, 150), None), idle(11, 151, 300)]);
    assert_eq!(seen.words(), BY_PEER);
}

fn any_wait() -> impl Strategy<Value = Wait> {
    let waker = prop_oneof![Just(None), Just(Some(1)), Just(Some(80)), (10..13_u32).prop_map(Some)];
    let root = prop_oneof![Just(None), Just(Some(OWN)), Just(Some(OTHER))];
    (any::<bool>(), 1..13_u32, 0..210_u64, 1..60_u64, waker, any::<bool>(), root).prop_map(
        |(polls, tid, from, length, waker, is_limited, root)| {
            let account = if polls { Account::Poll } else { Account::Lock };
            // Others' waits may be of any thread.
            let tid = if root == Some(OWN) { 1 } else { tid };
            Wait { root, is_limited, ..wait(tid, account, (from, from + length), waker) }
        },
    )
}

proptest! {
    /// Every wait comes out once, with its length, and nobody delayed one for longer than it took.
    #[test]
    fn no_wait_is_lost(
        mut waits in prop::collection::vec(any_wait(), 0..40),
        arrivals in prop::collection::vec(0..200_u64, 0..10),
    ) {
        waits.retain(|wait| wait.root != Some(OWN) || wait.account == Account::Poll);
        let own = waits.iter().filter(|wait| wait.root == Some(OWN));
        let mut kept: Vec<(u64, u64)> = own.map(|wait| (wait.start_ns, wait.blocked_ns)).collect();
        let told = Seen { waits, arrivals }.told();
        let mut out: Vec<(u64, u64)> =
            told.iter().map(|told| (told.wait.start_ns, told.wait.blocked_ns)).collect();
        kept.sort_unstable();
        out.sort_unstable();
        prop_assert_eq!(kept, out);
        for told in &told {
            prop_assert!(told.wait.blame.is_none_or(|blame| blame.ns <= told.wait.blocked_ns));
        }
    }
}
