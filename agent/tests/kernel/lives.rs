//! Starts of threads and programs, and their ends: which are tracked, and what remains of a phase whose
//! thread or program ends inside it.
//!
//! Each thread's row is compared with its own notes, and with the kernel's sums for ended processes.

use std::collections::HashSet;

use guestscope::{
    facts::btf::KERNEL_BTF,
    health::KernelLosses,
    phase::{Ending, PairingLosses, Phase, Thread},
};
use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    agreement::{compare, count, in_initial_namespace, up_to_three_times},
    harness::{Case, skipped},
    seen::Seen,
};

/// Threads of all processes except the program's first one: those that were tracked from their start.
fn born_tracked(seen: &Seen) -> impl Iterator<Item = &Thread> {
    // In another PID namespace the first process's number is unknown here; it is the one that started first.
    let first = seen.threads.iter().map(|thread| (thread.id.born_ns, thread.id.tgid)).min();
    let first = first.expect("the program has a thread").1;
    seen.threads.iter().filter(move |thread| thread.id.tgid != first)
}

/// Compares the kernel's sums for a child of the program, and for all that it waited for, with their ledgers.
pub(crate) fn compare_the_dead(case: &str, seen: &Seen) {
    let dead: Vec<&Thread> = born_tracked(seen).collect();
    let sum = |of: fn(&Thread) -> u64| dead.iter().map(|thread| of(thread)).sum::<u64>();
    let processes = dead.iter().map(|thread| thread.id.tgid).collect::<HashSet<_>>().len() as u64;
    let exact = |name: &str| (seen.book.fact(name), seen.book.fact(name));
    count(case, "fault.minor", sum(|thread| thread.counts.fault_minor), exact("minor"));
    count(case, "fault.major", sum(|thread| thread.counts.fault_major), exact("major"));
    // The kernel adds a thread to the sum before its last switch, and a leader before or after: at least the
    // last switches of all other threads are only in our sum. So are those of a thread that is still cleaning
    // up.
    let threads = dead.len() as u64;
    // On some kernels switches reach no tracepoint. They are known afterwards by number, not by kind.
    let missed = sum(|thread| thread.counts.switch_missed);
    let voluntary = seen.book.fact("voluntary");
    count(
        case,
        "voluntary",
        sum(|thread| thread.counts.switch_voluntary),
        (voluntary + threads - processes - missed, voluntary + threads),
    );
    let involuntary = seen.book.fact("involuntary");
    count(
        case,
        "involuntary",
        sum(|thread| thread.counts.switch_involuntary),
        (involuntary - missed.min(involuntary), involuntary + threads),
    );
}

/// The thread numbers in the program's notes are those of the threads that were seen.
pub(crate) fn assert_same_threads<'a>(seen: &Seen, threads: impl Iterator<Item = &'a Thread>) {
    let mut ours: Vec<u64> = threads.map(|thread| u64::from(thread.id.tid)).collect();
    let mut theirs = seen.book.facts("tid");
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours.len(), theirs.len());
    assert!(!in_initial_namespace() || ours == theirs, "{ours:?} {theirs:?}");
}

/// A phase that nobody ended begins where its thread says, and lasts at least as long as the thread saw.
fn assert_cut_off(seen: &Seen, phase: &Phase, ending: Ending) {
    assert_eq!(phase.ending, ending, "{phase:?}");
    assert!(seen.book.fact("before_ns") <= phase.start_ns && phase.start_ns <= seen.book.fact("begun_ns"));
    assert!(phase.start_ns + phase.duration_ns >= seen.book.fact("ending_ns"), "{phase:?}");
    assert_eq!(phase.suspended_ns, 0, "all of it is known: {phase:?}");
}

/// An edge may read the sums of a process while a thread leaves it, and says so then; one thread leaves.
fn only(losses: PairingLosses, seen: &Seen) {
    let sums_torn = seen.kernel.sums_torn.min(1);
    assert_eq!(seen.kernel, KernelLosses { sums_torn, ..KernelLosses::default() });
    assert_eq!(seen.pairing, losses);
    assert_eq!(seen.slots_held, 0);
}

/// A thread that the kernel adds to a process for its own work is not one of the program's.
#[test]
fn a_worker_of_the_kernel_is_no_thread_of_the_program() {
    let Some(seen) = Case::new("uring_worker").run() else { return };
    if seen.book.facts("refused") == [1] {
        return skipped("uring_worker", "io_uring is refused");
    }
    // Up to 5.11 such workers are pure kernel threads.
    let is_listed = seen.book.fact("threads") == 2;
    count("uring_worker", "threads", seen.threads.len() as u64, (1, 1));
    assert!(is_listed || !seen.has("sock_recv_length"), "from 6.3 on it is listed");
    only(PairingLosses::default(), &seen);
}

#[test]
fn every_descendant_is_tracked() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("descend").run() else { return };
        seen.check();
        seen.check_no_losses();
        assert_same_threads(&seen, seen.threads.iter());
        // The program, its child, the child's child, the one that a thread forked, and three spawned
        // programs.
        assert_eq!(seen.processes.len(), 7, "{:?}", seen.processes);
        assert!(seen.requests.is_empty());
        compare_the_dead("descend", &seen);
    });
}

#[test]
fn a_new_program_ends_the_phases_of_the_old_one() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("exec_leader").run() else { return };
        seen.check();
        only(PairingLosses { unended_phases: 2, ..PairingLosses::default() }, &seen);
        let (replaced, inner) = (seen.request(1), &seen.inside(1)[0]);
        assert_cut_off(&seen, replaced, Ending::Exec);
        assert_eq!((inner.ending, inner.name.stored()), (Ending::Exec, "inner"));
        compare("exec_leader", seen.request(3), seen.book.row(3), 0);
        assert_eq!(seen.request(3).thread, replaced.thread);
        assert_eq!((seen.threads.len(), seen.processes.len()), (1, 1));
    });
}

#[test]
fn a_thread_that_starts_a_program_becomes_the_leader() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("exec_thread").run() else { return };
        seen.check();
        only(PairingLosses { unended_phases: 2, ..PairingLosses::default() }, &seen);
        let (replaced, after) = (seen.request(1), seen.request(3));
        assert_cut_off(&seen, replaced, Ending::Exec);
        compare("exec_thread", after, seen.book.row(3), 0);
        // After the exec, the thread takes the leader's number and keeps its identity.
        assert!(!in_initial_namespace() || u64::from(replaced.thread.tid) == seen.book.fact("thread"));
        assert_eq!((after.thread.tid, after.thread.born_ns), (replaced.thread.tgid, replaced.thread.born_ns));
        // The leader's phase ends with the leader: at its last switch if that came first, else with the exec.
        let leader = seen.request(2);
        assert!(matches!(leader.ending, Ending::ThreadExited | Ending::Exec), "{leader:?}");
        assert_eq!(seen.threads.len(), 2, "{:?}", seen.threads);
        // One process throughout: the end of its old leader was not the end of the process.
        let processes: Vec<_> = seen.processes.iter().map(|process| process.thread).collect();
        assert_eq!(processes, [after.thread]);
    });
}

#[test]
fn a_thread_takes_its_phases_with_it() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("leave_thread").run() else { return };
        seen.check();
        only(PairingLosses { unended_phases: 2, ..PairingLosses::default() }, &seen);
        let (left, inner) = (seen.request(1), &seen.inside(1)[0]);
        assert_cut_off(&seen, left, Ending::ThreadExited);
        let thread =
            seen.threads.iter().find(|thread| thread.id == left.thread).expect("the thread was seen");
        for phase in [left, inner] {
            assert_eq!(phase.start_ns + phase.duration_ns, thread.end_ns, "to the last switch: {phase:?}");
        }
        compare("leave_thread", seen.request(3), seen.book.row(3), 0);
    });
}

#[test]
fn a_forked_child_has_phases_of_its_own() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("fork_inside").run() else { return };
        seen.check();
        only(PairingLosses { unended_phases: 1, ..PairingLosses::default() }, &seen);
        let (parent, child) = (seen.request(1), seen.request(2));
        compare("fork_inside", parent, seen.book.row(1), 0);
        compare("fork_inside", child, seen.book.row(2), 0);
        assert!(seen.inside(1).is_empty() && seen.inside(2).is_empty());
        assert_ne!(parent.thread.tgid, child.thread.tgid);
        assert!(
            parent.accounts.get(Account::Sleep) >= child.duration_ns,
            "it waited for the child: {parent:?}"
        );
        assert_eq!(seen.request(3).ending, Ending::ThreadExited);
        assert_eq!(seen.request(3).thread, child.thread);
    });
}

#[test]
fn a_killed_process_takes_its_phases_with_it() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("killed").run() else { return };
        seen.check();
        only(PairingLosses { unended_phases: 3, ..PairingLosses::default() }, &seen);
        let killing_ns = seen.book.fact("killing_ns");
        for phase in [seen.request(1), seen.request(2), &seen.inside(2)[0]] {
            assert_eq!(phase.ending, Ending::ThreadExited, "{phase:?}");
            let thread =
                seen.threads.iter().find(|thread| thread.id == phase.thread).expect("the thread was seen");
            assert_eq!(phase.start_ns + phase.duration_ns, thread.end_ns, "{phase:?}");
            assert!(thread.end_ns >= killing_ns);
            assert_eq!(phase.suspended_ns, 0);
        }
        let asleep = seen.request(1);
        // The other thread reports when both phases had begun. This one may not have slept yet: it may be on
        // a CPU, waiting for one (0.7 ms were seen), or in the barrier's futex.
        let known = [Account::Sleep, Account::Cpu, Account::Runq, Account::Lock]
            .map(|account| asleep.accounts.get(account));
        assert!(known.iter().sum::<u64>() >= killing_ns - seen.book.fact("begun_ns"), "{asleep:?}");
        assert!(asleep.accounts.get(Account::Sleep) > asleep.accounts.get(Account::Lock), "{asleep:?}");
        let spinning = seen.request(2);
        assert!(
            spinning.accounts.get(Account::Cpu) > 0 && spinning.accounts.get(Account::Sleep) == 0,
            "{spinning:?}"
        );
        compare_the_dead("killed", &seen);
    });
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("reuse").run() else { return };
        seen.check();
        if seen.book.refused() {
            return skipped("reuse", "the kernel gives no number of our choice");
        }
        seen.check_no_losses();
        let [first, second] = [1, 2].map(|number| seen.request(number));
        compare("reuse", first, seen.book.row(1), 0);
        compare("reuse", second, seen.book.row(2), 0);
        assert_eq!((first.thread.tid, first.thread.tgid), (second.thread.tid, second.thread.tgid));
        assert!(first.thread.born_ns < second.thread.born_ns);
        assert_eq!(seen.threads.len(), 3, "{:?}", seen.threads);
    });
}

#[test]
fn a_new_namespace_hides_nothing() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("namespace").run() else { return };
        seen.check();
        if seen.book.refused() {
            return skipped("namespace", "no new PID namespace");
        }
        seen.check_no_losses();
        assert_eq!(seen.book.fact("inner"), 1, "the child is the first of its namespace");
        assert_same_threads(&seen, born_tracked(&seen));
        (1..=3).for_each(|number| compare("namespace", seen.request(number), seen.book.row(number), 0));
    });
}

#[test]
fn ten_thousand_threads_leave_no_slot_behind() {
    up_to_three_times(|| {
        const THREADS: u64 = 10_000;
        let Some(seen) = Case::new("churn").argument(THREADS.to_string()).slots(512).run() else { return };
        seen.check();
        seen.check_no_losses();
        let numbers: HashSet<u64> = seen.requests.iter().map(|request| request.root().request).collect();
        assert_eq!(numbers, (1..=THREADS).collect());
        assert!(seen.requests.iter().all(|request| request.root().ending == Ending::Ended));
        // The program, and its child, which starts the threads.
        assert_eq!(seen.threads.len() as u64, THREADS + 2);
        assert_eq!(
            seen.threads.iter().map(|thread| thread.id).collect::<HashSet<_>>().len(),
            seen.threads.len()
        );
        compare_the_dead("churn", &seen);
    });
}

/// Twice as many starts and ends as their ring holds, while nobody reads: those without room are counted, and
/// no phase is affected.
#[test]
fn births_and_ends_that_found_no_room_are_counted() {
    up_to_three_times(|| {
        const THREADS: u64 = 2_400;
        let case = Case::new("churn_unread").argument(THREADS.to_string());
        let Some(seen) = case.idle_until_lines(1).run() else { return };
        seen.check();
        let KernelLosses { task_events, waits, sums_torn, .. } = seen.kernel;
        assert_eq!(
            seen.kernel,
            KernelLosses { task_events, waits, sums_torn, ..KernelLosses::default() },
            "edges and waits have rings of their own"
        );
        assert_eq!((seen.pairing, seen.slots_held), (PairingLosses::default(), 0));
        let numbers: HashSet<u64> = seen.requests.iter().map(|request| request.root().request).collect();
        assert_eq!((numbers, seen.requests.len() as u64), ((1..=THREADS).collect(), THREADS));
        assert!(seen.requests.iter().all(|request| request.root().ending == Ending::Ended));
        assert!(task_events > THREADS, "the ring is far too small for this: {task_events}");
        // Each end that was read is a thread; starts were read of as many threads, or of one round more. The
        // program's first thread has no tracked parent, its child has.
        let (all, ends) = (2 * (THREADS + 1) + 1, seen.threads.len() as u64);
        count("churn_unread", "read + lost", 2 * ends + task_events, (all - 8, all + 8));
    });
}

#[test]
fn without_a_slot_a_thread_is_counted_as_missed() {
    up_to_three_times(|| {
        const THREADS: u64 = 32;
        const SLOTS: u32 = 8;
        let Some(seen) = Case::new("crowd").argument(THREADS.to_string()).slots(SLOTS).run() else { return };
        seen.check();
        // One slot is the leader's.
        let tracked = u64::from(SLOTS) - 1;
        // A sum over 32 threads that start at once may be torn, which is counted and does not matter here.
        let torn = seen.kernel.sums_torn;
        let missed = THREADS - tracked;
        let expected = KernelLosses {
            tasks_missed: missed,
            sums_torn: torn,
            // The begin and the end of each.
            marks_untracked: 2 * missed,
            requests_untracked: missed,
            ..KernelLosses::default()
        };
        assert_eq!(seen.kernel, expected);
        assert_eq!((seen.pairing, seen.slots_held), (PairingLosses::default(), 0));
        let of =
            |number| seen.requests.iter().filter(|request| request.root().request == number).count() as u64;
        // The leader before and after; those of the many that have a slot; one thread once slots were free
        // again.
        assert_eq!([of(1), of(2), of(3), of(4)], [1, tracked, 1, 1]);
        assert_eq!(seen.threads.len() as u64, tracked + 2);
        let lacks = |number| seen.request(number).helpers.partial;
        assert_eq!([lacks(1), lacks(3)], [false, true], "sums of its process lack threads");
        compare("crowd", seen.request(3), seen.book.row(3), 0);
    });
}

/// Any thread may give the name: threads of a pool are born with their maker's.
#[rstest]
#[case::by_types(Case::new("renamed"))]
#[case::without_types(Case::new("renamed").by_file(KERNEL_BTF))]
fn a_phase_has_the_name_that_its_thread_has(#[case] case: Case) {
    let Some(seen) = case.run() else { return };
    seen.check();
    only(PairingLosses::default(), &seen);
    if !seen.has("task_rename") {
        return skipped("renamed", "this kernel has no tracepoint task_rename, or none by its type");
    }
    let name = |number| seen.request(number).comm.stored();
    let maker = seen.processes[0].comm.stored();
    assert_eq!([name(1), name(2), name(3)], [maker, "a name of its o", "given"]);
}
