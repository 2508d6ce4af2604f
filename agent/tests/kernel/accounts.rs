//! Accounts of a thread, compared with the kernel's own counters: every account that this machine can
//! provoke.
//!
//! One row for each case: its name, its number of phases, the account of its waits. Invariants 1 to 3.

use std::{ops::RangeInclusive, path::PathBuf};

use guestscope::phase::{Stopper, Wait};
use guestscope_contract::{Account, CALLS_32, GPU_MAJORS, SAMPLES_PER_S};
use rstest::rstest;

use crate::{
    agreement::{self, compare, up_to_three_times, waited_ns},
    harness::{Case, skipped},
    seen::Seen,
};

/// Share of the waiting that must be in the case's account: the rest is what the kernel did beside it, such
/// as waiting for a page of the program itself.
const SHARE: f64 = 0.99;

/// Runs a case with this many phases, numbered from 1, and compares each of them.
pub(crate) fn compared(case: Case, name: &str, phases: u64, signals: u64) -> Option<Seen> {
    let seen = case.run()?;
    seen.check();
    if seen.book.refused() {
        skipped(name, "refused here");
        return None;
    }
    seen.check_no_losses();
    assert!(seen.ledgers_read > 0, "ledgers were looked at while the program ran");
    for number in 1..=phases {
        compare(name, seen.request(number), seen.book.row(number), signals);
    }
    Some(seen)
}

/// Asserts that the waiting of a phase is in this account.
pub(crate) fn assert_account(seen: &Seen, number: u64, account: Account) {
    let phase = seen.request(number);
    let (ours_ns, all_ns) = (phase.accounts.get(account), waited_ns(phase));
    assert!(all_ns > 0, "it waited: {phase:?}");
    let text =
        || format!("{}: {ours_ns} of {all_ns}: {phase:?}, {:?}", account.name(), seen.waits_in(number));
    agreement::holds(ours_ns as f64 >= all_ns as f64 * SHARE, text);
}

#[rstest]
#[case::spin("spin", 1, 0)]
#[case::yields("yield", 2, 0)]
#[case::interrupted("interrupted", 1, 200)]
fn running_and_waiting_to_run(#[case] name: &'static str, #[case] phases: u64, #[case] signals: u64) {
    up_to_three_times(|| {
        compared(Case::new(name), name, phases, signals);
    });
}

#[test]
fn contenders_wait_for_each_other() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("contend"), "contend", 2, 0) else { return };
        // Both use the CPU for the same time: while one runs, the other waits, except while only one of them
        // is inside its phase.
        let [first, second] = [1, 2].map(|number| seen.request(number));
        let begin_ns = first.start_ns.max(second.start_ns);
        let end_ns = (first.start_ns + first.duration_ns).min(second.start_ns + second.duration_ns);
        let both_ns = end_ns.saturating_sub(begin_ns);
        let runq_ns = first.accounts.get(Account::Runq) + second.accounts.get(Account::Runq);
        agreement::holds(runq_ns as f64 >= both_ns as f64 * SHARE, || format!("{runq_ns} of {both_ns}"));
    });
}

#[rstest]
#[case::sleep("sleep", Account::Sleep)]
#[case::poll("poll", Account::Poll)]
#[case::ppoll("ppoll", Account::Poll)]
#[case::select("select", Account::Poll)]
#[case::epoll("epoll", Account::Poll)]
#[case::lock_of_a_file("flock", Account::Lock)]
#[case::lock_of_a_part_of_it("record_lock", Account::Lock)]
#[case::semaphore("semaphore", Account::Lock)]
fn waiting_for_time(#[case] name: &'static str, #[case] account: Account) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        assert_account(&seen, 1, account);
        let waited_ns = seen.request(1).accounts.get(account);
        // At most as long as the calls, and at least as long as requested, except for the time from the start
        // of the timer to the switch.
        agreement::time(
            name,
            account.name(),
            waited_ns,
            (seen.book.fact("asked_ns"), seen.book.fact("calls_ns")),
            0,
        );
        agreement::count(name, "wakeups", seen.request(1).counts.wakeup, (seen.book.fact("calls"), u64::MAX));
    });
}

/// 32-bit system calls have their own table of numbers, on kernels that run 32-bit programs. The record has
/// the name of the 32-bit call.
#[rstest]
#[case::sleep("sleep_32", Account::Sleep, 162)]
#[case::sleep_with_a_long_time("long_sleep_32", Account::Sleep, 407)]
#[case::lock("futex_32", Account::Lock, 240)]
#[case::lock_with_a_long_time("long_futex_32", Account::Lock, 422)]
#[case::poll("poll_32", Account::Poll, 168)]
#[case::select("select_32", Account::Poll, 142)]
#[case::read_of_a_pipe("read_32", Account::Other, 3)]
#[case::read_of_a_socket("socket_32", Account::Net, 3)]
#[case::a_call_for_many("socketcall_32", Account::Net, 102)]
fn waiting_in_a_32_bit_call(#[case] name: &'static str, #[case] account: Account, #[case] number: u16) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        assert_account(&seen, 1, account);
        let call = u32::from(CALLS_32 + number);
        let waits = seen.waits_in(1);
        let of_this = waits.iter().filter(|wait| wait.account == account && wait.syscall == Some(call));
        agreement::count_again(name, "waits", of_this.count() as u64, (1, u64::MAX));
        let numbers = waits.iter().filter_map(|wait| wait.syscall);
        assert!(numbers.clone().all(|number| number == call), "{:?}", numbers.collect::<Vec<_>>());
    });
}

/// The mark `32 bits` belongs to this call, not to the thread.
#[test]
fn a_64_bit_call_after_a_32_bit_one_is_one() {
    up_to_three_times(|| {
        let name = "sleep_after_32";
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        assert_account(&seen, 1, Account::Sleep);
        assert!(
            seen.waits_in(1).iter().all(|wait| wait.syscall.is_none_or(|call| call < u32::from(CALLS_32)))
        );
    });
}

/// From 6.5 on the kernel marks this wait as a wait for a disk, whatever the read is from.
#[test]
fn waiting_for_what_a_shared_ring_was_given() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("uring"), "uring", 1, 0) else { return };
        assert_account(&seen, 1, Account::Poll);
        let waits = seen.waits_in(1);
        let for_a_device = waits.iter().filter(|wait| wait.account == Account::Poll && wait.io.is_some());
        assert_eq!(for_a_device.count(), 0, "it is from a socket: {waits:?}");
    });
}

/// The next receive shows what a wait in epoll was for. Its hook exists from 6.3 on.
#[rstest]
#[case::a_socket("epoll_tcp", 0.9..=1.0)]
#[case::a_socket_by_read("epoll_read", 0.9..=1.0)]
#[case::a_pipe("epoll_pipe", 0.0..=0.0)]
#[case::an_event("epoll_eventfd", 0.0..=0.0)]
#[case::a_timer("epoll_timerfd", 0.0..=0.0)]
#[case::a_timer_and_a_socket("epoll_both", 0.1..=0.7)]
fn waiting_for_one_of_many(#[case] name: &'static str, #[case] share: RangeInclusive<f64>) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, 1, 0) else { return };
        assert_account(&seen, 1, Account::Poll);
        let phase = seen.request(1);
        let (polled_ns, net_ns) = (phase.accounts.get(Account::Poll), phase.counts.poll_net_ns);
        let share = if seen.has("sock_recv_length") { share.clone() } else { 0.0..=0.0 };
        let is_in = share.contains(&(net_ns as f64 / polled_ns as f64));
        agreement::holds(is_in, || format!("{net_ns} of {polled_ns}"));
    });
}

/// The major number of virtual terminals, which stand in for a graphics processor: waiting in a call on a
/// device needs no driver of one.
const TERMINALS: u32 = 4;

#[rstest]
#[case::of_a_graphics_processor([TERMINALS, 0, 0, 0, 0, 0, 0, 0], Account::Gpu)]
#[case::of_another_device([226, 195, 0, 0, 0, 0, 0, 0], Account::Other)]
fn waiting_for_a_device(#[case] majors: [u32; GPU_MAJORS], #[case] account: Account) {
    up_to_three_times(|| {
        let case = Case::new("device").gpus(majors);
        let Some(seen) = compared(case, "device", 1, 0) else { return };
        assert_account(&seen, 1, account);
        let waited_ns = seen.request(1).accounts.get(account);
        let bounds = (seen.book.fact("asked_ns"), seen.book.fact("calls_ns"));
        agreement::time("device", account.name(), waited_ns, bounds, 0);
    });
}

#[rstest]
#[case::lock("lock", 2, Account::Lock)]
#[case::pipe("pipe", 2, Account::Other)]
#[case::recv("recv", 2, Account::Net)]
#[case::read_on_a_socket("read", 2, Account::Net)]
#[case::read_on_the_last_of_64("read_60", 2, Account::Net)]
#[case::read_on_one_of_many("read_200", 2, Account::Net)]
#[case::pipe_among_many("pipe_200", 2, Account::Other)]
#[case::accept("accept", 1, Account::Net)]
fn waiting_for_somebody(#[case] name: &'static str, #[case] phases: u64, #[case] account: Account) {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new(name), name, phases, 0) else { return };
        (1..=phases).for_each(|number| assert_account(&seen, number, account));
        // Both sides of the exchange: this many calls each way, of this many bytes.
        for number in (1..=phases).filter(|_| seen.book.facts("balls").len() == 1) {
            let (counts, balls) = (seen.request(number).counts, seen.book.fact("balls"));
            let is_counted = account == Account::Net && seen.has("sock_recv_length");
            let sockets = if is_counted { balls } else { 0 };
            agreement::count(name, "received", counts.net_recv, (sockets, sockets));
            agreement::count(name, "sent", counts.net_send, (sockets, sockets));
            let bytes = sockets * seen.book.fact("ball_bytes");
            agreement::count(name, "bytes in", counts.net_recv_bytes, (bytes, bytes));
            agreement::count(name, "bytes out", counts.net_send_bytes, (bytes, bytes));
        }
    });
}

/// A folder on a disk: beside this test's executable, unless that is in memory.
pub(crate) fn on_disk() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_owned();
    let kind = nix::sys::statfs::statfs(&folder).ok()?.filesystem_type();
    (kind != nix::sys::statfs::TMPFS_MAGIC).then_some(folder)
}

#[rstest]
#[case::direct("direct", Account::BlockIo)]
#[case::many_at_a_time("aio", Account::BlockIo)]
#[case::buffered("buffered", Account::BlockIo)]
#[case::fsync("fsync", Account::BlockIo)]
#[case::fault("fault", Account::Fault)]
fn waiting_for_a_disk(#[case] name: &'static str, #[case] account: Account) {
    up_to_three_times(|| {
        let Some(folder) = on_disk() else { return skipped(name, "no folder on a disk") };
        let Some(seen) = compared(Case::new(name).argument(folder), name, 1, 0) else { return };
        assert_account(&seen, 1, account);
        let counts = seen.request(1).counts;
        let reads =
            (seen.book.facts("reads").iter().sum::<u64>(), seen.book.facts("read_bytes").iter().sum::<u64>());
        if !seen.has("block_bio_queue") {
            // Without the hook nothing is counted.
            agreement::count(name, "disk", counts.block_read + counts.block_write, (0, 0));
        } else if reads.0 > 0 {
            // A read of two extents of the file is two I/Os.
            agreement::count(name, "disk reads", counts.block_read, (reads.0, reads.0 + reads.0 / 10));
            agreement::count(name, "bytes read", counts.block_read_bytes, (reads.1, reads.1));
        }
        if name == "fsync" && seen.has("block_bio_queue") {
            // The journal's own thread writes the journal's blocks.
            agreement::count(
                name,
                "bytes written",
                counts.block_write_bytes,
                (seen.book.fact("write_bytes"), u64::MAX),
            );
        }
        if account == Account::Fault {
            let counts = &seen.request(1).counts;
            agreement::count(name, "faults", counts.fault_major, (seen.book.fact("faults"), u64::MAX));
        }
    });
}

#[test]
fn first_touches_are_counted_to_the_last() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("touch"), "touch", 1, 0) else { return };
        agreement::count(
            "touch",
            "pages",
            seen.request(1).counts.fault_minor,
            (seen.book.fact("pages"), u64::MAX),
        );
        assert_eq!(seen.request(1).accounts.get(Account::Fault), 0, "no fault had to wait");
    });
}

/// The kernel's own sum counts whole ticks, and everything that the CPU did meanwhile.
#[test]
fn what_interrupts_left_to_do_is_told_from_the_call_that_they_came_in() {
    // The kernel's own delay of a preempted thread begins with the wakeup of the preempting one, and one in
    // three of the thread's runs is preempted.
    agreement::up_to(10, || {
        let Some(seen) = compared(Case::new("datagrams"), "datagrams", 1, 0) else { return };
        let counts = &seen.request(1).counts;
        let book_ns = seen.book.fact("softirq_ns");
        let seen_ns = counts.sample_irq * 1_000_000_000 / SAMPLES_PER_S;
        let allowed_ns = book_ns / 4 + 50_000_000;
        agreement::time("datagrams", "irq", seen_ns, (book_ns, book_ns), allowed_ns);
        // Returning from an interrupt of user code has no system call number.
        agreement::holds(counts.sample_fault * 20 <= counts.sample_syscall, || format!("{counts:?}"));
    });
}

#[test]
fn moves_between_cpus_are_counted_to_the_last() {
    up_to_three_times(|| {
        let Some(seen) = compared(Case::new("migrate"), "migrate", 1, 0) else { return };
        let moves = seen.book.fact("moves");
        if moves == 0 {
            return skipped("migrate", "one CPU only");
        }
        let counts = seen.request(1).counts;
        let all = counts.migrate_smt + counts.migrate_llc + counts.migrate_node + counts.migrate_remote;
        agreement::count("migrate", "migrations", all, (moves, moves));
    });
}

#[rstest]
#[case::stopped("stop", "", Stopper::Signal)]
#[case::stopped_in_a_call("stop_calling", "", Stopper::Signal)]
#[case::traced("trace", "", Stopper::Debugger)]
#[case::frozen_by_v1("freeze", "v1", Stopper::Freezer)]
#[case::frozen_by_v2("freeze", "v2", Stopper::Freezer)]
fn kept_from_running_by_somebody(
    #[case] name: &'static str,
    #[case] argument: &'static str,
    #[case] stopper: Stopper,
) {
    up_to_three_times(|| {
        let case = format!("{name}{argument}");
        let Some(seen) = compared(Case::new(name).argument(argument), &case, 1, 2) else { return };
        let phase = seen.request(1);
        let kept_ns = seen.book.fact("kept_ns");
        if kept_ns == 0 {
            return skipped(&case, "the program could not be kept from running");
        }
        agreement::time(&case, "other", phase.accounts.get(Account::Other), (kept_ns, phase.duration_ns), 0);
        assert_account(&seen, 1, Account::Other);
        let stop = seen.waits_in(1).into_iter().max_by_key(|wait| wait.blocked_ns).expect("it was long");
        // Before 6.1 what the first version does looks like any other wait.
        assert!(
            stop.stopped_by == Some(stopper) || argument == "v1" && stop.stopped_by.is_none(),
            "{stop:?}"
        );
        let rest = (stop.syscall, stop.blame, stop.waker_tid.is_some());
        assert!(stop.stopped_by.is_none() || rest == (None, None, true), "{stop:?}");
        let others = seen.waits.iter().filter(|wait| wait.account != Account::Other);
        assert!(others.clone().all(|wait| wait.stopped_by.is_none()), "{:?}", others.collect::<Vec<_>>());
    });
}

/// The kernel ends the sleep and restarts it as another system call. (From 6.1 on the freezer of cgroup v1
/// lets sleeping threads sleep.)
#[rstest]
#[case::stopped("stop_asleep", "", Stopper::Signal)]
#[case::frozen_by_v2("freeze_asleep", "v2", Stopper::Freezer)]
fn a_sleep_that_was_interrupted_goes_on_as_one(
    #[case] name: &'static str,
    #[case] argument: &'static str,
    #[case] stopper: Stopper,
) {
    /// Time until the stopping process has noticed that the thread is stopped, and later that it runs again.
    const SLACK_NS: u64 = 30_000_000;
    up_to_three_times(|| {
        let case = format!("{name}{argument}");
        let Some(seen) = compared(Case::new(name).argument(argument), &case, 1, 2) else { return };
        let (phase, kept_ns) = (seen.request(1), seen.book.fact("kept_ns"));
        if kept_ns == 0 {
            return skipped(&case, "the program could not be kept from running");
        }
        let [other_ns, sleep_ns] =
            [Account::Other, Account::Sleep].map(|account| phase.accounts.get(account));
        agreement::time(&case, "other", other_ns, (kept_ns, kept_ns + SLACK_NS), 0);
        let slept_ns = phase.duration_ns - kept_ns;
        agreement::time(&case, "sleep", sleep_ns, (slept_ns.saturating_sub(SLACK_NS), slept_ns), 0);
        let waits = seen.waits_in(1);
        let is_stop = |wait: &&&Wait| wait.stopped_by == Some(stopper) && wait.account == Account::Other;
        assert_eq!(waits.iter().filter(is_stop).count(), 1, "{waits:?}");
    });
}
