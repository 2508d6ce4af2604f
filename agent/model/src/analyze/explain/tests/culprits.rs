//! Culprits of waits by their time, and the advice that follows from them.

use std::collections::BTreeMap;

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::{
    analyze::{Called, advice},
    phase::Stopper,
};

#[test]
fn a_wait_for_a_cpu_is_of_those_who_used_it_by_their_time() {
    let requests = run_with(Account::Runq, 60_000_000);
    let mut one = wait(&requests[94], Account::Runq, [0, 0, 10_000_000]);
    let user = |comm: &str, pid, ns| QueueUser { comm: comm.into(), pid, ns };
    one.users.listed = vec![user("busy", 800, 6_000_000), user("own", one.thread.tgid, 3_000_000)];
    one.users.others_ns = 500_000;
    let own_pid = one.thread.tgid;
    let explanation = with_waits(explain(&requests, Wanted::Slowest(10)), vec![one]);
    let case = explanation.groups[0].cases.iter().find(|case| case.request == 94).expect("it is slow");
    let waits = case.phases[0].parts[0].evidence.waits.as_ref().expect("there is one");
    let by: Vec<_> = waits.by.iter().map(|by| (by.culprit.clone(), by.ns)).collect();
    let ran = |comm: &str, pid| Culprit::Ran { comm: comm.into(), pid };
    // The last user, stress-ng, is not among them: it used no time worth a name.
    let expected = [
        (ran("busy", 800), 6_000_000),
        (ran("own", own_pid), 3_000_000),
        (Culprit::Others, 500_000),
        (Culprit::Unknown, 500_000),
    ];
    assert_eq!((waits.count, waits.total_ns, by), (1, 10_000_000, expected.to_vec()));
    let group = &explanation.groups[0];
    let behind = group.behind(Cause::Account(Account::Runq), &explanation.circle);
    assert_eq!(behind.used_ns(), [(Whose::Stranger, 6_000_000), (Whose::Own, 3_000_000)]);
    assert_eq!((behind.waits, behind.total_ns), (1, 10_000_000));
}

/// Each group that had a quarter of the time gets its advice, the largest first; pools that spin get that of
/// their library.
#[rstest]
#[case::strangers([10, 0, 0, 90], 0, &[(Whose::Stranger, "Others had the CPUs")])]
#[case::own([90, 10, 10, 0], 0, &[(Whose::Own, "Its own threads had the CPUs: start fewer")])]
#[case::own_second([40, 0, 0, 60], 0, &[(Whose::Stranger, "Others had"), (Whose::Own, "Its own threads had")])]
#[case::spinning([40, 0, 0, 60], 90, &[(Whose::Stranger, "Others had"), (Whose::Own, "Its own threads had part of that CPU time, and waited there by spinning: ONNX")])]
#[case::spinning_beside_strangers([10, 0, 0, 90], 90, &[(Whose::Stranger, "Others had"), (Whose::Own, "Its own threads had part of that CPU time, and waited there by spinning: ONNX")])]
#[case::spinning_a_little([5, 0, 0, 95], 90, &[(Whose::Stranger, "Others had")])]
#[case::hardly_spinning([90, 0, 0, 0], 20, &[(Whose::Own, "Its own threads had the CPUs: start fewer")])]
#[case::siblings([0, 80, 0, 20], 90, &[(Whose::Sibling, "Other processes of the same run")])]
#[case::agent([10, 0, 80, 10], 0, &[(Whose::Agent, "guestscope itself")])]
fn advice_follows_from_who_had_the_cpu(
    #[case] used: [u64; 4],
    #[case] spinning: u64,
    #[case] expected: &[(Whose, &str)],
) {
    let requests = run_with(Account::Runq, 60_000_000);
    let mut one = wait(&requests[94], Account::Runq, [0, 0, 10_000_000]);
    let pids = [one.thread.tgid, 801, 802, 803];
    let user = |(pid, tenths)| QueueUser { comm: "some".into(), pid, ns: tenths * 100_000 };
    one.users.listed = pids.into_iter().zip(used).filter(|(_, tenths)| *tenths > 0).map(user).collect();
    let mut explanation = with_waits(explain(&requests, Wanted::Slowest(10)), vec![one]);
    explanation.circle.agent_pid = Some(802);
    explanation.circle.spun = vec![("libonnxruntime", 7)];
    let threads = [pids[0], 801].map(|pid| {
        let mut thread = samples::thread(pid + 50, pid, "worker", &[]);
        (thread.counts.sample_user, thread.counts.sample_spin) = (100 - spinning, spinning);
        Ok::<_, Infallible>(thread)
    });
    let Ok(()) = explanation.add_threads(threads.into_iter());
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert_eq!(advised.len(), expected.len(), "{advised:?}");
    for (one, (whose, begin)) in advised.iter().zip(expected) {
        assert_eq!((one.cause, one.group), ("runq", Some(*whose)));
        assert!(one.advice.text.starts_with(begin), "{one:?}");
    }
}

/// Round trips that the kernel measured speak of the way; a Unix socket has none.
#[rstest]
#[case::far(4_000_000, advice::ON_THE_WAY)]
#[case::near(1_000_000, "net")]
#[case::none(0, "net")]
fn advice_on_the_way_to_a_peer_needs_one(#[case] way_ns: u64, #[case] expected: &str) {
    let mut requests = run_with(Account::Net, 10_000_000);
    for phase in &mut requests[94].phases {
        phase.counts.net_round_trip_ns = way_ns;
    }
    let explanation = explain(&requests, Wanted::Number(94));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// Waits that are not shown are not referred to.
#[rstest]
#[case::shown(true, "other")]
#[case::too_short(false, advice::UNSEEN)]
fn advice_on_other_waits_refers_to_them_where_there_are_some(#[case] shown: bool, #[case] expected: &str) {
    let requests = run_with(Account::Other, 10_000_000);
    let long = Wait { syscall: Some(9), ..wait(&requests[94], Account::Other, [9_000_000, 0, 0]) };
    let explanation =
        with_waits(explain(&requests, Wanted::Number(94)), shown.then_some(long).into_iter().collect());
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// Nobody waited for the threads that let a stopped one go on, and the advice is on what stopped it.
#[rstest]
#[case::signal(Stopper::Signal, [7, 7], Some(7), "stopped.signal")]
#[case::signals(Stopper::Signal, [7, 8], None, "stopped.signal")]
#[case::debugger(Stopper::Debugger, [7, 7], Some(7), "stopped.debugger")]
#[case::freezer(Stopper::Freezer, [7, 7], Some(7), "stopped.freezer")]
fn a_stop_is_blamed_on_what_stopped_the_thread(
    #[case] by: Stopper,
    #[case] wakers: [u32; 2],
    #[case] tid: Option<u32>,
    #[case] expected: &str,
) {
    let requests = run_with(Account::Other, 10_000_000);
    let stop = |waker| Wait {
        stopped_by: Some(by),
        waker_tid: Some(waker),
        ..wait(&requests[94], Account::Other, [4_500_000, 0, 0])
    };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), wakers.map(stop).to_vec());
    let waits = part(&explanation, Cause::Account(Account::Other)).evidence.waits.clone();
    let blamed: Vec<_> =
        waits.expect("there are two").by.into_iter().map(|by| (by.culprit, by.count)).collect();
    assert_eq!(blamed, [(Culprit::Stopped { by, tid }, 2)]);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// A fault that a thread in a call for memory ended waited for the address space, whatever kept that thread;
/// only a device reads back.
#[rstest]
#[case::another_unmapped(Some(libc::SYS_munmap), false, advice::ADDRESS_SPACE)]
#[case::another_read(Some(libc::SYS_read), false, advice::WITHOUT_READS)]
#[case::a_page_came(None, true, "fault")]
#[case::nothing_was_read(None, false, advice::WITHOUT_READS)]
fn advice_on_faults_follows_from_what_ended_them(
    #[case] call: Option<libc::c_long>,
    #[case] is_read: bool,
    #[case] expected: &str,
) {
    let requests = run_with(Account::Fault, 10_000_000);
    let io = is_read.then(|| WaitedIo { name: "vda".into(), ..WaitedIo::default() });
    let waker_syscall = call.map(|call| u32::try_from(call).expect("a number"));
    let blame =
        call.map(|_| Blame { tid: 77, account: Account::Runq, stopped_by: None, ns: 5_000_000, depth: 1 });
    let one = Wait {
        io,
        waker_tid: call.map(|_| 77),
        waker_syscall,
        blame,
        ..wait(&requests[94], Account::Fault, [9_000_000, 0, 0])
    };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![one]);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// Kernel time in page faults is that of touching memory, unless the faults had to read.
#[rstest]
#[case::touched(2_000, 3, "cpu.fault")]
#[case::read(10, 200, "fault")]
#[case::not_counted(0, 0, "cpu.fault")]
fn advice_on_time_in_page_faults_follows_from_their_kind(
    #[case] minor: u64,
    #[case] major: u64,
    #[case] expected: &str,
) {
    let mut requests = run_with(Account::Cpu, 60_000_000);
    for phase in &mut requests[94].phases {
        (phase.counts.fault_minor, phase.counts.fault_major) = (minor, major);
        (phase.counts.sample_user, phase.counts.sample_fault) = (1, 29);
    }
    let explanation = explain(&requests, Wanted::Number(94));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised[0].cause, "cpu.fault");
    assert_eq!(Some(&advised[0].advice), advice::for_cause(expected).as_ref());
}

/// A garbage collection is a phase that Python's hooks mark.
#[rstest]
#[case::a_collection("garbage collection", advice::COLLECTOR)]
#[case::another_phase("postprocess", "cpu")]
fn advice_on_own_work_knows_the_garbage_collector(#[case] name: &'static str, #[case] expected: &str) {
    let of = |number: u64| {
        let mut steps = vec![Step::Spend(Account::Cpu, 1_000_000)];
        if number % 10 == 4 {
            steps.push(Step::Nest(name, vec![Step::Spend(Account::Cpu, 12_000_000)]));
        }
        Sample::new(number, number * 100_000_000, steps).build()
    };
    let explanation = explain(&(0..100).map(of).collect::<Vec<_>>(), Wanted::Slowest(10));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert_eq!(Some(&advised[0].advice), advice::for_cause(expected).as_ref());
}

/// Busy-waiting is of a library where it is known which one.
#[rstest]
#[case::known(&[("libgomp", 70)], "It waited by spinning: GCC's OpenMP (libgomp)")]
#[case::the_driver(&[("libcuda", 70)], "It waited by spinning: NVIDIA's driver (libcuda) spins while it waits for the GPU")]
#[case::not_known(&[], "A parallel runtime waited by spinning")]
fn advice_on_spinning_names_the_library(#[case] spun: &[(&'static str, u64)], #[case] expected: &str) {
    let mut requests = run_with(Account::Cpu, 60_000_000);
    for phase in &mut requests[94].phases {
        (phase.counts.sample_user, phase.counts.sample_spin) = (1, 29);
    }
    let mut explanation = explain(&requests, Wanted::Number(94));
    explanation.circle.spun = spun.to_vec();
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised[0].cause, "cpu.spin");
    assert!(advised[0].advice.text.starts_with(expected), "{advised:?}");
}

/// Advice on waiting for another side is wrong where the thread's own reads were under way, and only there.
#[rstest]
#[case::of_a_device(true, false, Account::Poll, advice::IN_FLIGHT)]
#[case::of_somebody_else(false, false, Account::Poll, "poll")]
#[case::held_back(true, true, Account::BlockIo, advice::HELD_BACK)]
#[case::not_held_back(true, false, Account::BlockIo, "block_io")]
fn advice_is_on_what_the_waits_were_for(
    #[case] has_device: bool,
    #[case] is_held: bool,
    #[case] account: Account,
    #[case] expected: &str,
) {
    let requests = run_with(account, 10_000_000);
    let in_flight = (account == Account::Poll).then_some(InFlight { reads: 8, writes: 0 });
    let io = WaitedIo { name: "vda".into(), is_held, in_flight, ..WaitedIo::default() };
    let long = Wait { io: has_device.then_some(io), ..wait(&requests[94], account, [9_000_000, 0, 0]) };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![long]);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    let advice = advice::for_cause(expected).expect("there is some");
    assert_eq!(advised.iter().map(|one| &one.advice).collect::<Vec<_>>(), [&advice]);
}

/// A stranger that ended a wait has the name that it had then, though it was never observed.
#[test]
fn a_stranger_that_ended_a_wait_has_a_name() {
    let requests = run_with(Account::Other, 10_000_000);
    let comm = Some("cat".into());
    let long = Wait {
        waker_tid: Some(77),
        waker_comm: comm,
        ..wait(&requests[94], Account::Other, [9_000_000, 0, 0])
    };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![long]);
    assert_eq!(explanation.threads.get(&77).map(|named| named.comm.stored()), Some("cat"));
}

/// What a thread waits for is another thread's work, a write, or others' I/O: advice differs.
#[rstest]
#[case::of_a_thread(Account::Other, Some(kept(Account::Cpu, None)), None, 0, advice::OF_A_THREAD)]
#[case::of_nobody(Account::Other, None, None, 0, "other")]
#[case::of_a_stopped_one(
    Account::Net,
    Some(kept(Account::Other, Some(Stopper::Signal))),
    None,
    0,
    "stopped.signal"
)]
#[case::both_wait(Account::Net, Some(kept(Account::Net, None)), None, 0, advice::BOTH_WAIT)]
#[case::the_peer_had_no_cpu(Account::Net, Some(kept(Account::Runq, None)), None, 0, advice::PEER_QUEUED)]
#[case::the_partner_had_no_cpu(Account::Poll, Some(kept(Account::Runq, None)), None, 0, advice::PEER_QUEUED)]
#[case::the_peer_computed(Account::Net, Some(kept(Account::Cpu, None)), None, 0, "net")]
#[case::the_peer_sleeps(Account::Net, Some(kept(Account::Sleep, None)), None, 0, "net")]
#[case::reads(Account::BlockIo, None, Some(false), 0, "block_io")]
#[case::writes(Account::BlockIo, None, Some(true), 0, advice::WRITES)]
#[case::others_are_before_it(Account::BlockIo, None, Some(true), 6_000_000, advice::QUEUED)]
#[case::many_of_its_own(Account::BlockIo, None, Some(true), 60_000_000, advice::WRITES)]
#[case::others_are_before_it_a_little(Account::BlockIo, None, Some(false), 2_000_000, "block_io")]
fn advice_is_on_whose_turn_it_was(
    #[case] account: Account,
    #[case] blame: Option<Blame>,
    #[case] is_write: Option<bool>,
    #[case] queued_ns: u64,
    #[case] expected: &str,
) {
    let mut requests = run_with(account, 10_000_000);
    for phase in &mut requests[94].phases {
        phase.counts.block_queue_ns = queued_ns;
    }
    let io = is_write.map(|is_write| WaitedIo { name: "vda".into(), is_write, ..WaitedIo::default() });
    let waker_tid = blame.map(|blame| blame.tid);
    let long = Wait { waker_tid, blame, io, ..wait(&requests[94], account, [9_000_000, 0, 0]) };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![long]);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// Waits too short to be recorded name no device: bytes say whether they were for reads or for writes.
#[rstest]
#[case::writes(0, 9_000_000, advice::WRITES)]
#[case::reads(9_000_000, 0, "block_io")]
#[case::reads_and_fewer_writes(9_000_000, 1_000_000, "block_io")]
fn advice_on_short_waits_is_by_bytes(#[case] read: u64, #[case] written: u64, #[case] expected: &str) {
    let mut requests = run_with(Account::BlockIo, 10_000_000);
    for phase in &mut requests[94].phases {
        (phase.counts.block_io, phase.counts.block_read_bytes) = (300, read);
        phase.counts.block_write_bytes = written;
    }
    let explanation = explain(&requests, Wanted::Number(94));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// A thread that was kept so for most of the wait.
const fn kept(account: Account, stopped_by: Option<Stopper>) -> Blame {
    Blame { tid: 77, account, stopped_by, ns: 8_000_000, depth: 1 }
}

/// Time in `sched_yield` is spent on spinning, in any other call it is that call's work.
#[rstest]
#[case::yields(libc::SYS_sched_yield, advice::YIELDS)]
#[case::something_else(libc::SYS_newfstatat, "cpu.syscall")]
fn advice_on_calls_knows_the_one_that_spins(#[case] call: libc::c_long, #[case] expected: &str) {
    let mut requests = run_with(Account::Cpu, 60_000_000);
    for phase in requests.iter_mut().skip(4).step_by(10).flat_map(|request| &mut request.phases) {
        (phase.counts.sample_user, phase.counts.sample_syscall) = (1, 29);
    }
    let mut explanation = explain(&requests, Wanted::Slowest(10));
    explanation.circle.called = Called(BTreeMap::from([(u32::try_from(call).unwrap(), 290)]));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert_eq!(advised[0].cause, "cpu.syscall");
    assert_eq!(Some(&advised[0].advice), advice::for_cause(expected).as_ref());
}

/// The numbers differ from wait to wait: the largest ones stand for all.
#[test]
fn waits_for_one_ring_are_one_culprit() {
    let requests = run_with(Account::Poll, 10_000_000);
    let one = |name: &str, reads, writes| {
        let in_flight = Some(InFlight { reads, writes });
        let io = WaitedIo { name: name.into(), in_flight, ..WaitedIo::default() };
        Wait { io: Some(io), ..wait(&requests[94], Account::Poll, [2_000_000, 0, 0]) }
    };
    let waits = vec![one("vda", 3, 0), one("vda", 8, 0), one("vda", 1, 2), one("vdb", 1, 0)];
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), waits);
    let waits = part(&explanation, Cause::Account(Account::Poll)).evidence.waits.clone();
    let by = waits.expect("there are some").by;
    let of =
        |name: &str, reads, writes| Culprit::InFlight { name: name.into(), most: InFlight { reads, writes } };
    let by: Vec<_> = by.iter().map(|by| (by.culprit.clone(), by.count)).collect();
    assert_eq!(by, [(of("vda", 8, 2), 3), (of("vdb", 1, 0), 1)]);
}
