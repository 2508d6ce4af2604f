//! Starts and ends of programs, threads and phases, and what the agent returns for them.

use std::io::Write as _;

use guestscope::phase::Ending;
use guestscope_contract::Account;
use nix::sys::signal::Signal;
use rstest::rstest;

use crate::{
    folder::phase,
    ground::{Ground, eventually, skipped, subject},
    running::Start,
};

#[rstest]
#[case(0)]
#[case(3)]
#[case(255)]
fn the_exit_code_is_passed_on(#[case] code: i32) {
    let Some(ground) = Ground::new("lives::the_exit_code_is_passed_on") else { return };
    let done = ground.run_subject(&["exit-code", &code.to_string()]).finish().expect(code);
    assert_eq!(done.summary()["exit_code"], code);
    assert_eq!(
        done.seen().manifest.child.and_then(|child| child.exit),
        Some(guestscope::folder::Exit::Code(code))
    );
    assert_eq!(done.losses(), []);
}

#[test]
fn a_killed_program_keeps_its_phases() {
    let Some(ground) = Ground::new("lives::a_killed_program_keeps_its_phases") else { return };
    let done = ground.run_subject(&["kill-self"]).finish().expect(137);
    assert_eq!(
        (done.summary()["exit_signal"].clone(), done.summary()["exit_code"].is_null()),
        (9.into(), true)
    );
    let seen = done.seen();
    assert_eq!(
        seen.endings(),
        ["request:ended work:ended rest:ended", "request:thread_exited work:thread_exited"]
    );
    assert_eq!(seen.manifest.child.and_then(|child| child.exit), Some(guestscope::folder::Exit::Signal(9)));
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 2)]);
    let killed = seen.requests.iter().find(|request| request.root().ending == Ending::ThreadExited);
    let killed = killed.expect("it was seen above");
    assert!(phase(killed, "work").duration_ns >= 5_000_000, "{killed:#?}");
}

#[rstest]
#[case::by_the_shell("kill -TERM $PPID; sleep 30", 143)]
#[case::caught("trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.01; done", 7)]
#[case::other("kill -USR1 $PPID; sleep 30", 128 + libc::SIGUSR1)]
fn signals_to_the_agent_reach_the_program(#[case] script: &str, #[case] code: i32) {
    let Some(ground) = Ground::new("lives::signals_to_the_agent_reach_the_program") else { return };
    ground.run().program("sh").words(&["-c", &format!("exec 2>&-; {script}")]).finish().expect(code);
}

#[test]
fn sigterm_ends_a_run_in_order() {
    let Some(ground) = Ground::new("lives::sigterm_ends_a_run_in_order") else { return };
    let run = ground.run_subject(&["await-sigterm"]).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGTERM);
    let done = run.finish().expect(7);
    assert_eq!(done.seen().endings(), ["request:ended work:ended rest:ended"]);
    assert_eq!(done.losses(), []);
}

/// A terminal sends Ctrl-C to both the agent and the program; the program must get it once.
#[test]
fn ctrl_c_reaches_the_program_once() {
    let test = "lives::ctrl_c_reaches_the_program_once";
    let Some(ground) = Ground::new(test) else { return };
    if guestscope::child::resolve("script").is_err() {
        return skipped(test, "no program script, which makes a terminal");
    }
    let [agent, runs, subject] =
        [ground.agent().to_owned(), ground.path("runs"), subject()].map(|path| path.display().to_string());
    // A shell that waits for the agent gets the signal too, and ends by it whatever the agent returns: dash
    // does; bash instead executes the last command without a fork.
    let line = format!("exec {agent} run --output {runs} -- {subject} count-sigint");
    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    let start = Start::new(&ground.path(""), "script".as_ref()).words(&["-qec", &line, "/dev/null"]);
    let run = start.environment("E2E_BOOK", ground.path("book")).stdin(reader).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    writer.write_all(b"\x03").expect("the terminal reads");
    let done = run.finish().expect(1);
    assert!(done.stdout.contains("exited with 1"), "{}", done.stdout);
}

#[test]
fn a_thread_that_exits_inside_a_phase_ends_it() {
    let Some(ground) = Ground::new("lives::a_thread_that_exits_inside_a_phase_ends_it") else { return };
    let done = ground.run_subject(&["thread-exit"]).finish().expect(0);
    assert_eq!(
        done.seen().endings(),
        ["request:ended work:ended rest:ended", "request:thread_exited work:thread_exited"]
    );
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 2)]);
}

#[test]
fn exec_ends_the_phases_of_the_old_program() {
    let Some(ground) = Ground::new("lives::exec_ends_the_phases_of_the_old_program") else { return };
    let done = ground.run_subject(&["exec-leader"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!(
        seen.endings(),
        [
            "before:exec work:exec",
            "request:ended work:ended rest:ended",
            "request:ended work:ended rest:ended",
        ]
    );
    let before = seen.only("before");
    // It was busy for 5 ms of elapsed time, on a CPU or waiting for one.
    let accounts = before.root().accounts;
    let busy_ns = accounts.get(Account::Cpu) + accounts.get(Account::Runq);
    assert!(busy_ns >= 5_000_000, "{before:#?}");
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 2)]);
    assert_eq!(seen.processes.len(), 1, "{:?}", seen.processes);
}

#[test]
fn exec_from_a_thread_ends_the_phases_of_all_threads() {
    let Some(ground) = Ground::new("lives::exec_from_a_thread_ends_the_phases_of_all_threads") else {
        return;
    };
    let done = ground.run_subject(&["exec-thread"]).finish().expect(0);
    let seen = done.seen();
    // The exec kills the leader; its last switch may come before or after it.
    let leader = seen.only("leader").root();
    assert!([Ending::Exec, Ending::ThreadExited].contains(&leader.ending), "{leader:?}");
    let thread = seen.only("thread");
    assert_eq!(crate::folder::endings(thread), "thread:exec work:exec");
    // The thread was on its CPU all the time: nothing is `suspended`.
    assert_eq!((thread.root().suspended_ns, phase(thread, "work").suspended_ns), (0, 0));
    assert!(phase(thread, "work").accounts.0[0] >= 5_000_000, "{thread:#?}");
    assert_eq!(seen.named("request").len(), 2);
    assert!(seen.named("request").iter().all(|request| request.root().ending == Ending::Ended));
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 3)]);
}

#[test]
fn a_fork_inside_a_phase_is_another_process() {
    let Some(ground) = Ground::new("lives::a_fork_inside_a_phase_is_another_process") else { return };
    let done = ground.run_subject(&["fork"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!(seen.endings(), ["child:ended work:ended rest:ended", "parent:ended work:ended"]);
    let (parent, child) = (seen.only("parent").root(), seen.only("child").root());
    assert_ne!(parent.thread.tgid, child.thread.tgid);
    assert_eq!(seen.processes.len(), 2);
    // The child ended phases of its parent: two ends that match nothing.
    assert_eq!(done.losses(), [("pairing_unmatched_ends".to_owned(), 2)]);
}

#[test]
fn threads_without_a_free_slot_are_counted() {
    let Some(ground) = Ground::new("lives::threads_without_a_free_slot_are_counted") else { return };
    let start = ground.run().words(&["--max-threads", "8"]).program(subject()).words(&["threads", "32"]);
    let done = start.finish().expect(0);
    assert!(ground.book().contains("done"));
    // One slot is the main thread's.
    // Two marks of each request and of its two phases.
    let losses =
        [("kernel_marks_untracked", 150), ("kernel_requests_untracked", 25), ("kernel_tasks_missed", 25)];
    assert_eq!(done.losses(), losses.map(|(key, count)| (key.to_owned(), count)));
    assert_eq!(done.seen().requests.len(), 7);
    assert_eq!(done.seen().threads.len(), 8);
}

#[test]
fn many_threads_at_once() {
    let Some(ground) = Ground::new("lives::many_threads_at_once") else { return };
    let done = ground.run_subject(&["threads", "500"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let mut numbers: Vec<u64> = seen.requests.iter().map(|request| request.root().request).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
    assert_eq!(seen.threads.len(), 501);
}

/// Processes that end faster than anything can look at them.
#[test]
fn a_storm_of_processes() {
    let Some(ground) = Ground::new("lives::a_storm_of_processes") else { return };
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let done = ground.run().program("sh").words(&["-c", script]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!(seen.processes.len(), 301);
    assert_eq!(done.summary()["processes_seen"], 301);
    assert_eq!(seen.threads.len(), 301);
}

/// A process that outlives the program is reported as running, and runs on without the agent.
#[test]
fn what_lives_on_goes_on() {
    let Some(ground) = Ground::new("lives::what_lives_on_goes_on") else { return };
    let start = ground.run_subject(&["leave-behind"]).environment("E2E_GO_ON", ground.path("go-on"));
    let done = start.finish().expect(0);
    let seen = done.seen();
    assert_eq!(seen.endings(), ["behind:ended work:ended rest:ended", "request:ended work:ended rest:ended"]);
    let mut endings: Vec<Ending> = seen.processes.iter().map(|process| process.ending).collect();
    endings.sort_by_key(|ending| ending.name());
    assert_eq!(endings, [Ending::Ended, Ending::ObservationStopped]);
    assert!(!ground.book().contains("done"));
    std::fs::write(ground.path("go-on"), "").expect("the folder is ours");
    eventually("the program that was left behind ends by itself", || {
        ground.book().contains("done").then_some(())
    });
    assert!(seen.threads.iter().any(|thread| !thread.exited));
}
