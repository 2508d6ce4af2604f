//! Single long waits: as many as were provoked, with their reasons and the threads that ran meanwhile.

use std::time::Duration;

use guestscope::{
    phase::Wait,
    platform::{Groups, Guest, Root},
};
use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, count_again, in_initial_namespace, up_to_three_times},
    book::Entry,
    harness::{Case, skipped},
    machine::has_one_cpu,
    seen::Seen,
};

#[test]
fn each_long_sleep_is_a_wait_in_its_phase() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("sleep"), "sleep", 1, 0) else { return };
        let calls = seen.book.fact("calls");
        let asked_ns = seen.book.fact("asked_ns") / calls;
        let waits = seen.waits_in(1);
        let sleeps: Vec<_> = waits.iter().filter(|wait| wait.account == Account::Sleep).collect();
        // A wait whose end reached no tracepoint has no record.
        let missed = seen.request(1).counts.switch_missed;
        agreement::count("sleep", "long waits", sleeps.len() as u64, (calls - missed.min(calls), calls));
        for wait in sleeps {
            // The timer starts before the thread leaves its CPU.
            assert!(wait.blocked_ns >= asked_ns / 10 * 9, "it slept for as long as it asked: {wait:?}");
            // clock_nanosleep and nanosleep.
            assert!(matches!(wait.syscall, Some(230 | 35 | 115 | 101)), "{wait:?}");
            assert_eq!(wait.phase, Some(seen.request(1).id), "{wait:?}");
        }
        are_at_home(&waits);
    });
}

/// A thread's write after its sleep ends another one's wait in epoll; the writer's own wait explains it.
#[rstest]
#[case::a_socket("epoll_tcp", true)]
#[case::a_socket_by_read("epoll_read", true)]
#[case::a_pipe("epoll_pipe", false)]
#[case::an_event("epoll_eventfd", false)]
fn a_wait_for_one_of_many_is_explained_by_who_wrote(#[case] name: &'static str, #[case] by_softirq: bool) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        let reader = seen.request(1).thread;
        let is_writer = |wait: &&Wait| {
            wait.account == Account::Sleep && wait.thread.tgid == reader.tgid && wait.thread.tid != reader.tid
        };
        let writer = seen.waits.iter().find(is_writer).expect("the writer slept").thread.tid;
        let comm = seen.threads.iter().find(|thread| thread.id.tid == writer).map(|thread| &thread.comm);
        let polls = polls_of(&seen);
        let all = polls.len() as u64;
        let (by_writer, others): (Vec<_>, Vec<_>) =
            polls.into_iter().partition(|wait| wait.waker_tid == Some(writer));
        let names: Vec<_> = by_writer.iter().filter_map(|wait| wait.waker_comm.as_ref()).collect();
        assert!(!names.is_empty() && names.iter().all(|name| Some(*name) == comm), "{comm:?}: {names:?}");
        // It slept or waited for a CPU: one of these is the longest part.
        let right = by_writer.iter().filter(|wait| {
            wait.blame.is_some_and(|blame| {
                let kept = [Account::Sleep, Account::Runq, Account::Throttled].contains(&blame.account);
                kept && blame.tid == writer && blame.depth == 1 && blame.ns * 3 >= wait.blocked_ns
            })
        });
        // The first wait may have begun before the writer's; waits whose ends reached no hook, or whose ring
        // was full, have no record that could explain another wait.
        let unseen = seen.threads.iter().map(|thread| thread.counts.switch_missed).sum::<u64>();
        let lack = 1 + unseen + seen.kernel.waits;
        let told = by_writer.len() as u64;
        count_again(name, "explained", right.count() as u64, (told - lack.min(told), told));
        let slept = by_writer.iter().filter(|wait| wait.blame.is_some_and(|b| b.account == Account::Sleep));
        count_again(name, "by a sleep", slept.count() as u64, (told / 2, told));
        // A writer to a pipe wakes the reader itself. A softirq delivers data on a socket, mostly at the end
        // of the same call, at times later in the kernel's own thread.
        let most = lack + if by_softirq { all / 4 } else { 0 };
        count_again(name, "by others", others.len() as u64, (0, most));
        assert!(others.iter().all(|wait| wait.blame.is_none_or(|blame| blame.tid != writer)), "{others:?}");
    });
}

/// An interrupt interrupts any thread, which is not the cause of the wakeup, whatever had kept that thread
/// from running.
#[test]
fn a_wait_for_a_timer_is_explained_by_nobody() {
    up_to_three_times(|| {
        let name = "epoll_interrupting";
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        let reader = seen.request(1).thread.tid;
        let polls = polls_of(&seen);
        let by_somebody = polls.iter().filter(|wait| wait.waker_tid.is_some_and(|waker| waker != reader));
        // Without a look at the interrupted thread's system call it is more than half of them. An interrupt
        // in a call that hands something over may still be taken for it.
        count_again(name, "by others", by_somebody.count() as u64, (0, polls.len() as u64 / 20));
        assert!(polls.iter().all(|wait| wait.blame.is_none()), "{polls:?}");
    });
}

/// Long waits in epoll. Data that was there before the first of them was read without a wait.
fn polls_of(seen: &Seen) -> Vec<&Wait> {
    let mut waits = seen.waits_in(1);
    waits.retain(|wait| wait.account == Account::Poll);
    assert!(waits.len() as u64 > seen.book.fact("times") / 2, "{waits:?}");
    waits
}

/// Asserts that the waits have this test's control group (in version 2 the CPU controller may belong to a
/// parent) and PID namespace.
fn are_at_home(waits: &[&Wait]) {
    let (own, mut groups) = (Guest::here().cgroup.path, Groups::below(Root::system()));
    for wait in waits {
        assert!(!in_initial_namespace() || wait.ns_tid == Some(wait.thread.tid), "{wait:?}");
        let found = wait.cgroup_number.and_then(|number| groups.path(number));
        let is_own =
            own.as_deref().zip(found.as_ref()).is_some_and(|(own, found)| own.starts_with(found.stored()));
        assert!(is_own, "{found:?}, and it is in {own:?}: {wait:?}");
    }
}

#[test]
fn a_contender_waits_behind_the_other_one() {
    if has_one_cpu() {
        return skipped("contend", "one CPU only: this test contends for it as well");
    }
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("contend"), "contend", 2, 0) else { return };
        let [first, second] = [1, 2].map(|number| seen.request(number).thread.tid);
        for (number, other) in [(1, second), (2, first)] {
            let waits = seen.waits_in(number);
            let runq_ns: u64 = waits.iter().map(|wait| wait.runq_ns()).sum();
            let whole_ns = seen.request(number).accounts.get(Account::Runq);
            assert!(waits.iter().all(|wait| wait.cpu == wait.left_cpu), "both are pinned: {waits:?}");
            let preempted = waits.iter().filter(|wait| wait.account == Account::Runq);
            assert!(preempted.clone().all(|wait| wait.syscall.is_none()), "{waits:?}");
            // Other threads may run in between, and short waits have no record.
            assert!(runq_ns > 0 && runq_ns <= whole_ns, "{runq_ns} of {whole_ns}");
            assert!(waits.iter().any(|wait| wait.ran_before_tid == other), "behind {other}: {waits:?}");
            assert!(waits.iter().any(|wait| wait.replaced_by_tid == other), "by {other}: {waits:?}");
            let pid = seen.request(number).thread.tgid;
            let own = waits.iter().flat_map(|wait| &wait.users.listed).filter(|user| user.pid == pid);
            let names: Vec<&str> = own.map(|user| user.comm.stored()).collect();
            assert!(names.iter().all(|name| *name != "contender"), "names of the process: {names:?}");
            // Without the kernel's types the last thread alone is known.
            assert!(!names.is_empty() || waits.iter().all(|wait| wait.users.total_ns() == 0), "{waits:?}");
        }
    });
}

#[test]
fn waits_hold_all_that_was_throttled() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("quota"), "quota", 1, 0) else { return };
        let phase = seen.request(1);
        let waits = seen.waits_in(1);
        let throttled_ns: u64 = waits.iter().map(|wait| wait.throttled_ns).sum();
        let unseen = phase.counts.switch_missed > 0;
        let whole_ns = phase.accounts.get(Account::Throttled);
        assert!(unseen || throttled_ns == whole_ns, "{throttled_ns} of {whole_ns}: {waits:?}");
    });
}

/// Each long wait has a record or is counted as lost: nobody reads before the last thread has written its
/// line.
#[test]
fn no_wait_is_lost_without_being_counted() {
    const THREADS: usize = 8;
    up_to_three_times(|| {
        let case = Case::new("sleepers").idle_until_lines(2 * THREADS);
        let Some(seen) = case.run() else { return };
        seen.check();
        let calls: u64 = seen.book.facts("calls").iter().sum();
        let numbers = 1..=THREADS as u64;
        // Outside of the sleeps a thread may be preempted, or wait for memory, which can be long waits, too.
        let switches =
            |entry| numbers.clone().map(|number| seen.book.row(number).bounds(entry).1).sum::<u64>();
        let most = switches(Entry::Voluntary) + switches(Entry::Involuntary);
        let missed: u64 = numbers.clone().map(|number| seen.request(number).counts.switch_missed).sum();
        let told = (numbers.clone().map(|number| seen.waits_in(number).len())).sum::<usize>() as u64;
        assert!(seen.kernel.waits > calls / 2, "the ring is far too small for this: {}", seen.kernel.waits);
        // Lost waits may be outside the phase, too: at the start and the end of each thread.
        let allowed = 4 * THREADS as u64;
        // A switch that reached no hook (6.18) may hide the end of a wait and the start of the next one.
        let bounds = (calls - (2 * missed).min(calls), most + allowed);
        count_again("sleepers", "told + lost", told + seen.kernel.waits, bounds);
    });
}

#[test]
fn waits_below_the_threshold_have_no_record() {
    up_to_three_times(|| {
        let case = Case::new("sleep").wait_threshold(Duration::ZERO);
        let Some(seen) = compared(case, "sleep", 1, 0) else { return };
        assert_eq!(seen.waits, []);
        let case = Case::new("sleep").wait_threshold(Duration::from_secs(4));
        let Some(seen) = compared(case, "sleep", 1, 0) else { return };
        assert_eq!(seen.waits, []);
    });
}
