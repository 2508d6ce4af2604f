//! Runs without BPF (fidelity `procfs`): as an ordinary user, behind a seccomp filter, and with BPF beside it
//! for comparison.
//!
//! The agent's numbers are compared with what the program read from the same clocks directly before and after
//! its edges: no test depends on how long anything takes.

use std::{
    os::unix::fs::chown,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use guestscope::phase::{Phase, PhaseKind, Request};
use guestscope_contract::Account;
use insta::assert_snapshot;
use nix::sys::signal::Signal;
use rstest::rstest;
use serde_json::Value;

use crate::{
    filter::{BPF_AND_PIDFD, refuse_calls},
    folder::{Seen, endings, only_folder},
    ground::{Ground, eventually, file, python, subject},
    running::Start,
};

const NOBODY: u32 = 65_534;
const ENDED: &str = "request:ended work:ended rest:ended";
/// Slots of the ring.
const SLOTS: u64 = 1 << 14;
/// A reading that is further from its edge than this is repeated.
const APART_NS: u64 = 500_000;

/// The agent as an ordinary user, in a folder of that user; the caller adds its arguments.
fn as_nobody(ground: &Ground) -> Start {
    let agent = ground.path("guestscope");
    let program = ground.path("e2e_subject");
    if !agent.exists() {
        // Other users may not be able to enter the build folder.
        std::fs::copy(ground.agent(), &agent).expect("the folder is ours");
        std::fs::copy(subject(), &program).expect("the folder is ours");
        std::fs::create_dir(ground.path("runs")).expect("the folder is ours");
        std::fs::write(ground.path("book"), "").expect("the folder is ours");
        for theirs in ["runs", "book"] {
            chown(ground.path(theirs), Some(NOBODY), Some(NOBODY)).expect("root may");
        }
    }
    let start = Start::new(&ground.path(""), &agent).environment("E2E_BOOK", ground.path("book"));
    start.before(|| {
        nix::unistd::setgroups(&[])?;
        nix::unistd::setgid(NOBODY.into())?;
        Ok(nix::unistd::setuid(NOBODY.into())?)
    })
}

/// A run of the subject in this role.
fn run_as_nobody(ground: &Ground, role: &[&str]) -> Start {
    let run = as_nobody(ground).words(&["run", "--json", "--output", "runs"]);
    run.program(ground.path("e2e_subject")).words(role)
}

/// A run as root without BPF.
fn run_without(ground: &Ground, role: &[&str]) -> Start {
    ground.run().words(&["--fidelity", "procfs"]).program(subject()).words(role)
}

fn account(phase: &Phase, account: Account) -> u64 {
    phase.accounts.0[account as usize]
}

/// Accounts that no thread can measure of itself are zero.
fn check_accounts(phase: &Phase) {
    let told = [Account::Cpu, Account::Runq, Account::Other].map(|one| account(phase, one));
    assert_eq!(told.iter().sum::<u64>(), phase.accounts.total_ns(), "{phase:?}");
}

#[test]
fn an_ordinary_user_sees_phases() {
    let Some(ground) = Ground::new("unprivileged::an_ordinary_user_sees_phases") else { return };
    let done = run_as_nobody(&ground, &["requests", "5", "3000", "2000"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let said: Vec<&str> = done.stderr.lines().collect();
    assert!(said[0].contains("fidelity procfs") && said[0].contains("2 of 3 hooks"), "{said:?}");
    assert_snapshot!(said[1..].join("\n"), @r"
    BPF is refused here (observing needs CAP_BPF and CAP_PERFMON): phases by what their threads tell, as cpu, runq and other
    hint: for all accounts, root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, and no filter of system calls that refuses bpf(2)
    ");
    let summary = done.summary();
    assert_eq!((&summary["fidelity"], summary["requests"].as_u64()), (&Value::from("procfs"), Some(5)));
    assert_eq!(summary["accounts_not_seen"].as_array().map(Vec::len), Some(8));
    let seen = done.seen();
    assert_eq!(seen.manifest.fidelity, "procfs");
    assert_eq!(seen.endings(), vec![ENDED; 5]);
    for request in &seen.requests {
        request.phases.iter().for_each(check_accounts);
        let work = request.phases.iter().find(|phase| phase.name.stored() == "work").expect("it has one");
        // Its work was measured by the same clock.
        assert!(account(work, Account::Cpu) >= 3_000_000, "{work:?}");
    }
    let [process] = &seen.processes[..] else { panic!("one process: {:?}", seen.processes) };
    check_accounts(process);
    assert_eq!((process.name.stored(), process.kind), ("e2e_subject", PhaseKind::Process));
    assert!(account(process, Account::Cpu) >= 15_000_000 && process.counts.fault_minor > 0, "{process:?}");
    assert!(process.counts.switch_voluntary >= 5, "it slept five times: {process:?}");
    assert_eq!(seen.threads.len(), 1);
}

#[rstest]
#[case::code(&["exit-code", "7"], 7)]
#[case::signal(&["kill-self"], 137)]
fn its_end_is_passed_on(#[case] role: &[&str], #[case] code: i32) {
    let Some(ground) = Ground::new("unprivileged::its_end_is_passed_on") else { return };
    run_as_nobody(&ground, role).finish().expect(code);
}

#[test]
fn a_signal_is_passed_on() {
    let Some(ground) = Ground::new("unprivileged::a_signal_is_passed_on") else { return };
    let run = run_as_nobody(&ground, &["await-sigterm"]).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGTERM);
    let done = run.finish().expect(7);
    assert_eq!(done.seen().endings(), [ENDED]);
}

#[test]
fn a_program_without_marks_has_its_row() {
    let Some(ground) = Ground::new("unprivileged::a_program_without_marks_has_its_row") else { return };
    let done = run_as_nobody(&ground, &["unmarked"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!((seen.requests.len(), seen.processes.len()), (0, 1));
    check_accounts(&seen.processes[0]);
    assert!(account(&seen.processes[0], Account::Cpu) >= 20_000_000, "{:?}", seen.processes);
}

#[test]
fn what_cannot_do_without_says_so() {
    let Some(ground) = Ground::new("unprivileged::what_cannot_do_without_says_so") else { return };
    let done = as_nobody(&ground).words(&["attach", "--pid", "1"]).finish().expect(2);
    assert_snapshot!(done.stderr, @r"
    error: observing needs CAP_BPF and CAP_PERFMON

    hint: run it as root: sudo guestscope run -- CMD
    ");
    let doctor = as_nobody(&ground).words(&["doctor", "--json"]).finish().expect(1);
    let doctor: Value = serde_json::from_str(&doctor.stdout).expect("the doctor prints JSON");
    assert_eq!(doctor["fidelity"], "procfs");
    let hooks = doctor["hooks"].as_array().expect("a list");
    let in_place = hooks.iter().filter(|hook| hook["outcome"] == "ok").map(|hook| &hook["hook"]);
    assert_eq!(in_place.collect::<Vec<_>>(), ["shm/edges", "proc/schedstat"]);
}

/// As a container engine refuses bpf(2), and without pidfd, as in gVisor.
#[test]
fn behind_a_filter_of_system_calls() {
    let Some(ground) = Ground::new("unprivileged::behind_a_filter_of_system_calls") else { return };
    let start = ground.run_subject(&["requests", "5"]).before(|| refuse_calls(BPF_AND_PIDFD));
    let done = start.finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!((&*seen.manifest.fidelity, seen.endings()), ("procfs", vec![ENDED.to_owned(); 5]));
    assert_eq!(seen.processes.len(), 1);
}

#[test]
fn a_python_program_by_the_shared_library() {
    let test = "unprivileged::a_python_program_by_the_shared_library";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let run = ground.run().words(&["--fidelity", "procfs"]).program(python);
    let done = run.word(file("tests/data/e2e/python_marks.py")).finish().expect(0);
    assert_eq!(done.losses(), []);
    assert_eq!(done.seen().endings(), ["classify:ended preprocess:ended inference:ended"; 3]);
}

/// Threads, forks and execs inside phases give the same result as with BPF.
#[rstest]
#[case::thread_exit(&["thread-exit"], 0)]
#[case::exec_leader(&["exec-leader"], 0)]
#[case::fork(&["fork"], 0)]
#[case::threads(&["threads", "40"], 0)]
#[case::killed(&["kill-self"], 137)]
fn lives_are_the_same(#[case] role: &[&str], #[case] code: i32) {
    let test = "unprivileged::lives_are_the_same";
    let (Some(one), Some(other)) = (Ground::new(test), Ground::new(test)) else { return };
    let full = one.run().words(&["--fidelity", "full"]).program(subject()).words(role).finish().expect(code);
    let without = run_without(&other, role).finish().expect(code);
    assert_eq!(without.seen().endings(), full.seen().endings());
    assert_eq!(without.losses(), full.losses());
}

/// With BPF, the main thread is seen to end before the other thread takes its number; without it both end
/// with the exec.
#[test]
fn a_thread_that_becomes_another_program_ends_all_phases() {
    let test = "unprivileged::a_thread_that_becomes_another_program_ends_all_phases";
    let Some(ground) = Ground::new(test) else { return };
    let done = run_without(&ground, &["exec-thread"]).finish().expect(0);
    assert_eq!(done.seen().endings(), ["leader:exec", ENDED, ENDED, "thread:exec work:exec"]);
}

/// The process has ID 1 in its namespace, which belongs to another process where the agent is.
#[test]
fn a_program_in_another_pid_namespace_has_its_own_numbers() {
    let test = "unprivileged::a_program_in_another_pid_namespace_has_its_own_numbers";
    let Some(ground) = Ground::new(test) else { return };
    let run =
        ground.run().words(&["--fidelity", "procfs"]).program("unshare").words(&["-fp", "--mount-proc"]);
    let done = run.word(subject()).words(&["requests", "5", "1000"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!(seen.endings(), vec![ENDED; 5]);
    assert!(seen.requests.iter().all(|request| request.root().thread.tgid == 1));
    // The process of `unshare`, which the agent started; of number 1 only its edges are known.
    assert_eq!(seen.processes.iter().map(|process| process.name.stored()).collect::<Vec<_>>(), ["unshare"]);
}

/// Writers that are killed at any instant do not block the others.
#[test]
fn killed_programs_hold_nobody() {
    let Some(ground) = Ground::new("unprivileged::killed_programs_hold_nobody") else { return };
    let script = "for at in 1 2 3 4 5 6 7 8 9 10 11 12; do \
                  env -u E2E_BOOK $0 burst 1000000 </dev/zero & sleep 0.0$at; kill -9 $!; done; \
                  sleep 1; exec $0 witness 5 0 0";
    let run = ground.run().words(&["--fidelity", "procfs"]).program("sh").words(&["-c", script]);
    let done = run.word(subject()).finish().expect(0);
    let seen = done.seen();
    assert!(seen.requests.len() > 12 && seen.processes.len() == 1);
    let of_the_last = |request: &&Request| request.root().thread.tgid == seen.processes[0].thread.tgid;
    let last: Vec<String> = seen.requests.iter().filter(of_the_last).map(endings).collect();
    let mut expected = vec!["request:ended work:ended"; 6];
    expected[0] = "first:ended work:ended rest:ended";
    assert_eq!(last, expected);
    assert!(done.loss("kernel_edges_unfinished") <= 12, "{:?}", done.losses());
}

/// A child that outlives the agent finds the ring full at some time, and runs on.
#[test]
fn a_child_that_is_left_behind_goes_on() {
    let Some(ground) = Ground::new("unprivileged::a_child_that_is_left_behind_goes_on") else { return };
    let start = run_without(&ground, &["leave-behind"]).environment("E2E_GO_ON", ground.path("go-on"));
    let done = start.finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!((seen.named("request").len(), seen.named("behind").len()), (1, 1));
    std::fs::write(ground.path("go-on"), "").expect("the folder is ours");
    eventually("the child goes on to its end", || ground.book().contains("done").then_some(()));
}

/// The ring fills up while it is not read: every edge was read or counted.
#[test]
fn a_ring_that_overflows_is_counted_exactly() {
    const REQUESTS: u64 = 10_000;
    let Some(ground) = Ground::new("unprivileged::a_ring_that_overflows_is_counted_exactly") else { return };
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    let run = run_without(&ground, &["burst", "10000"]).stdin(Stdio::from(reader)).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGSTOP);
    drop(std::io::Write::write_all(&mut &writer, b"\n"));
    eventually("the program ends", || ground.book().contains("done").then_some(()));
    run.signal(Signal::SIGCONT);
    let done = run.finish().expect(0);
    // A request has 6 edges. Those of the first request may have been read before.
    let (lost, without) = (done.loss("kernel_edges"), 6 * REQUESTS - SLOTS);
    assert!(lost == without || lost == without + 6, "{lost} edges lost: {:?}", done.losses());
    // Requests that found room are complete.
    let whole = done.seen().endings().iter().filter(|endings| *endings == ENDED).count() as u64;
    assert_eq!(whole, (6 * (REQUESTS + 1) - lost) / 6 - 1);
}

/// The program's readings around the edges of one request: time, CPU time and waiting for a CPU, ns.
#[derive(Debug)]
struct Witness {
    before: [u64; 3],
    begun: [u64; 3],
    ending: [u64; 3],
    after: [u64; 3],
}

fn witnesses(book: &str) -> Vec<Witness> {
    let lines = book.lines().filter(|line| *line != "done");
    let witness = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').skip(1).map(|number| number.parse().expect("one")).collect();
        let at = |index: usize| [numbers[index], numbers[index + 1], numbers[index + 2]];
        Witness { before: at(0), begun: at(3), ending: at(6), after: at(9) }
    };
    lines.map(witness).collect()
}

/// The phases `work` in the order of their requests.
fn works(seen: &Seen) -> Vec<Phase> {
    let mut requests = seen.named("request");
    requests.sort_by_key(|request| request.root().request);
    let work = |phases: &[Phase]| phases.iter().find(|phase| phase.name.stored() == "work").cloned();
    requests.into_iter().map(|request| work(&request.phases).expect("each has one")).collect()
}

/// A phase's duration lies between the program's readings inside and around it. Its CPU time is at least what
/// the program measured, less its run queue: the kernel counts a woken thread as on its CPU from then on, and
/// not from the switch (KERNELS.md). Returns whether it is also at most that: the program's clock excludes
/// stolen time, and the BPF programs' does not.
fn check_against(witness: &Witness, phase: &Phase) -> bool {
    let Witness { before, begun, ending, after } = witness;
    let end_ns = phase.start_ns + phase.duration_ns;
    assert!((before[0]..=begun[0]).contains(&phase.start_ns), "begin of {phase:?}");
    assert!((ending[0]..=after[0]).contains(&end_ns), "end of {phase:?}");
    let cpu = account(phase, Account::Cpu);
    assert!(ending[1] - begun[1] <= cpu + account(phase, Account::Runq), "{witness:?} {phase:?}");
    cpu <= after[1] - before[1]
}

/// Compared with the kernel's own numbers, while a neighbour uses the same CPU.
#[test]
fn accounts_are_what_the_thread_reads_beside_them() {
    let test = "unprivileged::accounts_are_what_the_thread_reads_beside_them";
    let Some(ground) = Ground::new(test) else { return };
    let all = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("it is this thread's");
    let is_ours = |cpu: &usize| all.is_set(*cpu).unwrap_or(false);
    let last = (0..nix::sched::CpuSet::count()).rfind(is_ours).expect("a thread that runs has a CPU");
    let mut here = nix::sched::CpuSet::new();
    here.set(last).expect("it is one of the set");
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &here).expect("the CPU is there");
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let pinned = move || Ok(nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &here)?);
        let done = run_without(&ground, &["witness", "10", "30000", "3000"]).before(pinned).finish();
        is_over.store(true, Relaxed);
        done.expect(0)
    });
    assert_eq!(done.losses(), []);
    let (works, witnesses) = (works(&done.seen()), witnesses(&ground.book()));
    assert_eq!((works.len(), witnesses.len()), (10, 10));
    let mut waited = 0;
    for (phase, witness) in works.iter().zip(&witnesses) {
        check_accounts(phase);
        assert!(check_against(witness, phase), "{phase:?}");
        let inside = witness.ending[2] - witness.begun[2];
        let around = witness.after[2] - witness.before[2];
        let runq = account(phase, Account::Runq);
        assert!((inside.saturating_sub(2 * APART_NS)..=around + 2 * APART_NS).contains(&runq), "{phase:?}");
        waited += runq;
        // It slept for 3 ms, neither on a CPU nor waiting for one.
        assert!(account(phase, Account::Other) >= 3_000_000 - 2 * APART_NS, "{phase:?}");
    }
    assert!(waited > 0, "a neighbour that spins on the same CPU took nothing");
}

/// One program under both: BPF sees the probe that the library fires before it writes into the ring.
#[test]
fn the_kernel_side_beside_it_sees_the_same() {
    let test = "unprivileged::the_kernel_side_beside_it_sees_the_same";
    let Some(ground) = Ground::new(test) else { return };
    let program = subject();
    // The first program shows the outer agent where the probe is; the second one runs under the inner agent.
    let script = format!(
        "{0} requests 1; exec {1} run --fidelity procfs --output inner -- {0} witness 20 2000 500",
        program.display(),
        ground.agent().display()
    );
    let done =
        ground.run().words(&["--fidelity", "full"]).program("sh").words(&["-c", &script]).finish().expect(0);
    let (outer, inner) =
        (Seen::read(&only_folder(&ground.path("runs"))), Seen::read(&only_folder(&ground.path("inner"))));
    assert_eq!((&*outer.manifest.fidelity, &*inner.manifest.fidelity), ("full", "procfs"));
    assert_eq!((done.losses(), inner.named("first").len()), (vec![], 1));
    let book = ground.book();
    let book = book.lines().skip_while(|line| *line != "done").skip(1).collect::<Vec<_>>().join("\n");
    let witnesses = witnesses(&book);
    let full: Vec<Phase> =
        works(&outer).into_iter().filter(|phase| phase.start_ns >= witnesses[0].before[0]).collect();
    let told = works(&inner);
    assert_eq!((full.len(), told.len(), witnesses.len()), (20, 20, 20));
    let mut undisturbed = 0;
    for ((full, told), witness) in full.iter().zip(&told).zip(&witnesses) {
        assert_eq!((full.request, &full.name, full.ending), (told.request, &told.name, told.ending));
        undisturbed += usize::from(check_against(witness, full));
        assert!(check_against(witness, told), "{told:?}");
        let end = |phase: &Phase| phase.start_ns + phase.duration_ns;
        assert!(full.start_ns <= told.start_ns && end(full) <= end(told), "{full:?} {told:?}");
    }
    assert!(undisturbed > 10, "the hypervisor cannot have taken the CPU in every phase: {undisturbed} of 20");
}
