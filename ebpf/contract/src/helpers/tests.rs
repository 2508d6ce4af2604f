//! The sum over a process's threads is their time outside phases, to the nanosecond, whatever they do.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{Distance, ledger::Arrival};

const CPU: usize = Account::Cpu as usize;
const RUNQ: usize = Account::Runq as usize;
const THREADS: usize = 4;
/// Later than all stamps of a new ledger, which are 0.
const START_NS: u64 = 10;
const CHILD: u64 = 1 << crate::TOKEN_CHILD_BITS | 1;

/// The next act of a thread.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Leaves its CPU, or gets one.
    Switch {
        account: Option<u8>,
    },
    /// Woken, if it is blocked.
    Wake,
    Begin,
    End,
    Exit,
}

/// A thread, and its time outside phases, nanosecond by nanosecond.
#[derive(Clone, Copy)]
struct Thread {
    ledger: Ledger,
    outside: Outside,
    is_alive: bool,
    depth: u32,
    truth: [u64; ACCOUNTS],
}

impl Thread {
    fn born() -> Self {
        let mut ledger = Ledger::EMPTY;
        ledger.begin(START_NS, RUNNING, 0);
        Thread { ledger, outside: Outside::default(), is_alive: true, depth: 0, truth: [0; ACCOUNTS] }
    }

    /// The account of its present activity.
    fn account(&self) -> usize {
        match self.ledger.state {
            RUNNING => CPU,
            BLOCKED => usize::from(self.ledger.account),
            _ => RUNQ,
        }
    }

    fn act(&mut self, now_ns: u64, act: Act) {
        let on_cpu = self.ledger.state == RUNNING;
        match act {
            Act::Switch { account: None } if on_cpu => self.ledger.out_runnable(now_ns),
            Act::Switch { account: Some(account) } if on_cpu => self.ledger.out_blocked(now_ns, account, 0),
            Act::Switch { .. } if self.ledger.state != BLOCKED => {
                self.ledger.switched_in(now_ns, Arrival { cpu: 0, distance: Distance::Smt as u8 });
            }
            Act::Wake if self.ledger.state == BLOCKED => {
                self.ledger.waking(now_ns, 1);
                self.ledger.wakeup(now_ns);
            }
            Act::Begin if on_cpu => {
                let token = if self.depth == 0 { 1 << crate::TOKEN_CHILD_BITS } else { CHILD };
                self.outside.edge(Operation::Begin as u64, token, 0, &self.ledger, now_ns);
                self.depth += 1;
            }
            Act::End if on_cpu && self.depth > 0 => {
                self.outside.edge(Operation::End as u64, CHILD, 0, &self.ledger, now_ns);
                self.depth -= 1;
            }
            Act::Exit if on_cpu => {
                self.ledger.out_blocked(now_ns, Account::Other as u8, 0);
                self.is_alive = false;
            }
            Act::Switch { .. } | Act::Wake | Act::Begin | Act::End | Act::Exit => {}
        }
    }
}

fn read(sum: &mut HelperSum, thread: &Thread, now_ns: u64) -> Reading {
    // SAFETY: all three are whole, and nobody else has them.
    unsafe { add(sum, &raw const thread.ledger, &raw const thread.outside, now_ns) }
}

/// The sum in an edge.
fn sum(threads: &[Thread], ended: &[u64; ACCOUNTS], now_ns: u64) -> [u64; ACCOUNTS] {
    let mut sum = HelperSum { accounts: *ended, ..HelperSum::default() };
    for thread in threads.iter().filter(|thread| thread.is_alive) {
        let reading = read(&mut sum, thread, now_ns);
        assert_eq!(reading, Reading::Added);
    }
    sum.accounts
}

fn any_act() -> impl Strategy<Value = Act> {
    let blocked = 3..ACCOUNTS as u8;
    prop_oneof![
        4 => proptest::option::of(blocked).prop_map(|account| Act::Switch { account }),
        2 => Just(Act::Wake),
        2 => Just(Act::Begin),
        2 => Just(Act::End),
        1 => Just(Act::Exit),
    ]
}

proptest! {
    #[test]
    fn the_sum_is_what_the_threads_spent_outside(steps in vec((0..THREADS, 0..1000_u64, any_act()), 0..200)) {
        let mut threads = [Thread::born(); THREADS];
        let mut ended = [0; ACCOUNTS];
        let (mut now_ns, mut before) = (START_NS, [0; ACCOUNTS]);
        for (index, passed_ns, act) in steps {
            now_ns += passed_ns;
            for thread in threads.iter_mut().filter(|thread| thread.is_alive && thread.depth == 0) {
                thread.truth[thread.account()] += passed_ns;
            }
            let thread = &mut threads[index];
            if thread.is_alive {
                thread.act(now_ns, act);
                if !thread.is_alive {
                    for (account, ended) in ended.iter_mut().enumerate() {
                        *ended += thread.outside.share(&thread.ledger, now_ns, account);
                    }
                }
            }
            let now = sum(&threads, &ended, now_ns);
            for (account, (&now, &before)) in now.iter().zip(&before).enumerate() {
                let truth: u64 = threads.iter().map(|thread| thread.truth[account]).sum();
                prop_assert_eq!(now, truth, "account {} at {}", account, now_ns);
                prop_assert!(now >= before, "no sum goes down");
            }
            before = now;
        }
    }
}

#[test]
fn what_is_being_written_is_not_summed() {
    let mut thread = Thread::born();
    let read = |thread: &Thread| read(&mut HelperSum::default(), thread, 100);
    thread.ledger.out_runnable(50);
    assert_eq!(read(&thread), Reading::Added);
    // Charged, and the start of the next interval not set yet.
    thread.ledger.accounts[CPU] += 1;
    assert_eq!(read(&thread), Reading::Torn);
    thread.ledger.accounts[CPU] -= 1;
    thread.outside.sequence += 1;
    assert_eq!(read(&thread), Reading::Torn);
}

#[test]
fn a_wait_that_was_over_before_it_began_takes_no_time_from_a_reading_before() {
    let mut thread = Thread::born();
    thread.ledger.waking(90, 1);
    thread.ledger.out_blocked(100, Account::Lock as u8, 0);
    let at = |now_ns| {
        let mut sum = HelperSum::default();
        assert_eq!(read(&mut sum, &thread, now_ns), Reading::Added);
        (sum.accounts[CPU], sum.accounts[RUNQ], sum.accounts[Account::Lock as usize])
    };
    assert_eq!(
        [at(95), at(100), at(120)],
        [(100 - START_NS, 0, 0), (100 - START_NS, 0, 0), (100 - START_NS, 20, 0)]
    );
}

#[test]
fn a_wait_without_quota_is_told_apart() {
    let mut thread = Thread::born();
    thread.ledger.out_runnable(50);
    thread.ledger.limit(crate::ledger::ThrottleClock { group: 1, ns: 7 });
    let mut sum = HelperSum::default();
    let reading = read(&mut sum, &thread, 120);
    assert_eq!(reading, Reading::Limited(70));
    assert_eq!((sum.accounts[CPU], sum.accounts[RUNQ]), (50 - START_NS, 70));
}

#[test]
fn a_begin_where_nothing_is_open_puts_a_wrong_depth_right() {
    let mut outside = Outside::default();
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    // The end of the second one came from another thread.
    outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 10);
    outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 20);
    outside.edge(Operation::End as u64, CHILD - 1, 0, &ledger, 30);
    assert_eq!(outside.depth, 1, "it seems to be inside still");
    outside.edge(Operation::Begin as u64, CHILD - 1, 0, &ledger, 40);
    outside.edge(Operation::End as u64, CHILD - 1, 0, &ledger, 50);
    assert_eq!((outside.depth, outside.share(&ledger, 60, CPU)), (0, 20));
}

#[test]
fn an_end_that_says_where_its_thread_is_is_believed() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    let mut outside = Outside::default();
    outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 10);
    // Another thread's suspended phase ends here, inside this one.
    outside.edge(Operation::End as u64, CHILD, THREAD_INSIDE, &ledger, 20);
    assert_eq!(outside.depth, 1);
    // Another thread sends the end of this one; the next edge finds too high a depth.
    outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 30);
    outside.edge(Operation::End as u64, CHILD - 1, THREAD_OUTSIDE, &ledger, 40);
    assert_eq!((outside.depth, outside.share(&ledger, 50, CPU)), (0, 20));
}

/// Three phases that each end where the next begins, and the last one with its request, twice within a phase.
#[test]
fn edges_that_end_more_than_they_say_leave_no_wrong_depth_outside() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    let mut outside = Outside::default();
    outside.edge(Operation::Begin as u64, CHILD - 1, 0, &ledger, 10);
    for _ in 0..2 {
        outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 20);
        for _ in 0..3 {
            outside.edge(Operation::Begin as u64, CHILD, 0, &ledger, 20);
        }
        outside.edge(Operation::End as u64, CHILD - 1, THREAD_INSIDE, &ledger, 30);
        assert!(outside.depth > 0);
    }
    outside.edge(Operation::End as u64, CHILD - 1, THREAD_OUTSIDE, &ledger, 40);
    assert_eq!((outside.depth, outside.share(&ledger, 60, CPU)), (0, 30));
}

/// A range of another copy of the library within a phase: that copy knows no other.
#[test]
fn what_a_second_copy_of_the_library_begins_and_ends_leaves_the_thread_inside() {
    let second = |operation: Operation| operation as u64 | 7 << 16;
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    let mut outside = Outside::default();
    outside.edge(Operation::Request as u64, CHILD - 1, 0, &ledger, 10);
    for _ in 0..2 {
        outside.edge(second(Operation::Begin), CHILD - 1, 0, &ledger, 20);
        outside.edge(second(Operation::End), CHILD - 1, THREAD_OUTSIDE, &ledger, 30);
        assert_eq!(outside.depth, 1);
    }
    // The end of this one is lost: the word of the outermost one's copy holds.
    outside.edge(second(Operation::Begin), CHILD - 1, 0, &ledger, 40);
    outside.edge(Operation::End as u64, CHILD - 1, THREAD_OUTSIDE, &ledger, 50);
    assert_eq!((outside.depth, outside.share(&ledger, 60, CPU)), (0, 20));
    outside.edge(second(Operation::Begin), CHILD - 1, 0, &ledger, 60);
    outside.edge(second(Operation::End), CHILD - 1, THREAD_OUTSIDE, &ledger, 70);
    assert_eq!((outside.depth, outside.share(&ledger, 80, CPU)), (0, 30));
}

#[test]
fn a_stretch_has_one_name_and_no_other_has_it() {
    let mut ledger = Ledger::EMPTY;
    ledger.begin(0, RUNNING, 0);
    let mut outside = Outside::default();
    let mut names = vec![outside.stretch()];
    for round in 0..3 {
        let at = |ns: u64| 10 + round * 100 + ns;
        outside.edge(Operation::Begin as u64, CHILD - 1, 0, &ledger, at(0));
        names.push(outside.stretch());
        // Phases within change nothing.
        outside.edge(Operation::Begin as u64, CHILD, 0, &ledger, at(10));
        assert_eq!(names.last(), Some(&outside.stretch()));
        outside.edge(Operation::End as u64, CHILD, THREAD_INSIDE, &ledger, at(20));
        assert_eq!(names.last(), Some(&outside.stretch()));
        outside.edge(Operation::End as u64, CHILD - 1, THREAD_OUTSIDE, &ledger, at(37));
        names.push(outside.stretch());
    }
    let different: std::collections::BTreeSet<u64> = names.iter().copied().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
}
