//! Marks that no library would make, and programs that meet the agent late or never.
//!
//! Invalid marks are counted and reported; control characters in a name never reach the terminal.

use std::process::Stdio;

use nix::sys::signal::Signal;
use rstest::rstest;
use serde_json::json;

use crate::{
    coverage,
    ground::{Ground, eventually, file, python, subject},
};

#[test]
fn a_python_program_needs_no_setting_up() {
    let test = "markers::a_python_program_needs_no_setting_up";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_marks.py");
    // The module comes from the agent, not from the script's folder or the user's path.
    let start = ground.run().program(python).word(script).without("PYTHONPATH");
    let done = start.finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!(seen.endings(), ["classify:ended preprocess:ended inference:ended"; 3]);
}

/// Durations from start to end, exact: of a request, and of an outermost phase that is no request.
#[test]
fn phases_of_a_python_program_join() {
    let test = "markers::phases_of_a_python_program_join";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_joined.py");
    let done = ground.run().program(python).word(script).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let endings = "preprocess:ended inference:ended postprocess:ended";
    let roots = ["classify", "classify", "classify", "epoch"];
    assert_eq!(seen.endings(), roots.map(|root| format!("{root}:ended {endings}")));
    for request in &seen.requests {
        assert!(coverage::is_whole(request), "{request:#?}");
    }
}

#[test]
fn a_python_path_of_the_users_own_stays() {
    let test = "markers::a_python_path_of_the_users_own_stays";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    std::fs::create_dir(ground.path("modules")).expect("the folder is ours");
    std::fs::write(ground.path("modules/theirs.py"), "").expect("the folder is ours");
    let start =
        ground.run().program(python).words(&["-c", "import theirs, guestscope; assert guestscope.available"]);
    start.environment("PYTHONPATH", ground.path("modules")).finish().expect(0);
}

#[test]
fn odd_names_and_stray_ends_are_counted() {
    let test = "markers::odd_names_and_stray_ends_are_counted";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_odd_marks.py");
    let done = ground.run().program(python).word(script).finish().expect(0);
    let seen = done.seen();
    let names: Vec<(&str, bool)> = seen
        .requests
        .iter()
        .map(|request| (request.root().name.stored(), request.root().name_damaged))
        .collect();
    let long = "long ".repeat(13);
    assert_eq!(
        names,
        [
            (&long[..64], true),
            ("broken \u{fffd}\u{fffd}\u{fffd} bytes", true),
            ("zero \0 inside", false),
            ("\u{1b}[31mred\u{1b}[0m\r\n\u{9b}", false),
            ("größer", false),
            ("", false),
        ]
    );
    // Two ends before any start, and a second end of each request.
    let losses = [("pairing_damaged_names".to_owned(), 2), ("pairing_unmatched_ends".to_owned(), 8)];
    assert_eq!(done.losses(), losses);
    let controls = |c: &char| c.is_control() && *c != '\n';
    assert_eq!(done.stdout.chars().find(controls), None, "{:?}", done.stdout);
}

/// The summary on a terminal, for people.
#[test]
fn odd_names_do_not_reach_the_terminal() {
    let test = "markers::odd_names_do_not_reach_the_terminal";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let run = ground.command(&["run", "--output"]).word(ground.path("runs")).program(python);
    let done = run.word(file("tests/data/e2e/python_odd_marks.py")).finish().expect(0);
    for text in [&done.stdout, &done.stderr] {
        assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None, "{text:?}");
    }
    let lost: Vec<&str> = done.stdout.lines().filter(|line| line.starts_with("lost")).collect();
    assert_eq!(
        lost,
        [
            "lost          8 ends of phases whose begin was not seen",
            "lost          2 names cut, unreadable or no UTF-8"
        ]
    );
}

#[test]
fn a_program_without_marks_has_a_row_per_process() {
    let Some(ground) = Ground::new("markers::a_program_without_marks_has_a_row_per_process") else { return };
    let done = ground.run_subject(&["unmarked"]).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    assert_eq!((seen.requests.len(), seen.processes.len()), (0, 1));
    assert!(seen.processes[0].accounts.0[0] >= 20_000_000, "{:?}", seen.processes);
    let summary = done.summary();
    assert_eq!((&summary["requests"], &summary["processes_seen"]), (&json!(0), &json!(1)));
    assert_eq!(summary["processes"][0]["wall_ns"], seen.processes[0].duration_ns);
}

/// Without the agent's variables the library does not greet: the program counts as unmarked.
#[test]
fn a_program_with_a_cleared_environment_is_one_without_marks() {
    let test = "markers::a_program_with_a_cleared_environment_is_one_without_marks";
    let Some(ground) = Ground::new(test) else { return };
    let book = format!("E2E_BOOK={}", ground.path("book").display());
    let run = ground.run().program("env").words(&["-i", &book]).word(subject()).words(&["requests", "3"]);
    let done = run.finish().expect(0);
    assert!(ground.book().contains("done"));
    let seen = done.seen();
    assert_eq!((seen.requests.len(), seen.processes.len()), (0, 1));
    assert_eq!(done.losses(), []);
}

/// If another process has met the agent with the same library file, edges are seen whatever the environment
/// is.
#[test]
fn a_cleared_environment_does_no_harm_once_the_file_was_met() {
    let test = "markers::a_cleared_environment_does_no_harm_once_the_file_was_met";
    let Some(ground) = Ground::new(test) else { return };
    let script = format!("{0} requests 1; exec env -i {0} requests 3", subject().display());
    let done = ground.run().program("sh").words(&["-c", &script]).finish().expect(0);
    assert_eq!(done.losses(), []);
    assert_eq!(done.seen().requests.len(), 4);
}

/// The library waits 2 s for an agent that does not answer; then the program runs on, and its marks are lost.
#[test]
fn an_agent_that_hangs_holds_no_program() {
    let Some(ground) = Ground::new("markers::an_agent_that_hangs_holds_no_program") else { return };
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    // The library greets when it is loaded, so the program starts only after the agent was stopped.
    let script = "echo ready >>\"$E2E_BOOK\"; read line; exec \"$0\" requests 10";
    let start = ground.run().program("sh").words(&["-c", script, &subject().to_string_lossy()]);
    let run = start.stdin(Stdio::from(reader)).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGSTOP);
    {
        use std::io::Write as _;
        let mut writer = writer;
        writer.write_all(b"\n").expect("the program reads");
    }
    eventually("the program goes on without an answer", || ground.book().contains("done").then_some(()));
    run.signal(Signal::SIGCONT);
    let done = run.finish().expect(0);
    let seen = done.seen();
    assert_eq!((seen.requests.len(), seen.processes.len()), (0, 1));
}

/// A probe in a program needs more privileges than the rest (CAP_SYS_ADMIN from Linux 6.16 on), as does
/// reading a process that may do more than the agent. Without them there are no phases, and the summary names
/// the missing hook.
#[rstest]
#[case::sys_admin(21)]
#[case::sys_ptrace(19)]
fn a_probe_that_cannot_be_attached_is_said(#[case] capability: libc::c_ulong) {
    let Some(ground) = Ground::new("markers::a_probe_that_cannot_be_attached_is_said") else { return };
    let start = ground.run_subject(&["requests", "3"]).before(move || {
        // SAFETY: takes no pointers.
        match unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    let done = start.finish().expect(0);
    let summary = done.summary();
    let hooks = summary["hooks"].as_array().expect("hooks are a list");
    let marker = hooks.iter().find(|hook| hook["hook"] == "uprobe/guestscope_edge").expect("it was wanted");
    // Older kernels need fewer privileges for a probe.
    let seen = done.seen().requests.len();
    let expected = if seen == 3 { "ok" } else { "broken" };
    assert_eq!((marker["outcome"].as_str(), done.losses().len()), (Some(expected), 0), "{summary}");
    assert!([0, 3].contains(&seen), "{seen} requests");
}

/// The ring fills up while it is not read. Edges without room are counted, and the others add up.
#[test]
fn a_ring_that_overflows_is_counted() {
    let Some(ground) = Ground::new("markers::a_ring_that_overflows_is_counted") else { return };
    let (reader, writer) = std::io::pipe().expect("descriptors are free");
    let script = format!("{0} requests 1; exec {0} wait-for-line 10000", subject().display());
    let start = ground.run().program("sh").words(&["-c", &script]);
    let run = start.stdin(Stdio::from(reader)).spawn();
    eventually("the program is ready", || ground.book().contains("ready").then_some(()));
    run.signal(Signal::SIGSTOP);
    drop(std::io::Write::write_all(&mut &writer, b"\n"));
    eventually("the program ends", || ground.book().matches("done").nth(1).map(drop));
    run.signal(Signal::SIGCONT);
    let done = run.finish().expect(0);
    let lost = done.loss("kernel_edges");
    // A request has 6 edges, and 4 MiB hold some 12,000 edges.
    assert!((30_000..55_000).contains(&lost), "{lost} edges lost: {:?}", done.losses());
    let seen = done.seen();
    assert!(seen.requests.len() > 1_000, "{} requests", seen.requests.len());
    // Requests that lost an edge are left out of statistics.
    let summary = done.summary();
    let unfinished = summary["left_out"]["unfinished"].as_u64().expect("a number");
    assert_eq!(summary["requests"].as_u64(), Some(seen.requests.len() as u64 - unfinished));
}
