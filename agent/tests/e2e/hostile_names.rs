//! Terminal control sequences in every name that others choose: an unobserved neighbour, the program's
//! file, phases and threads, its control group. No reader sees them unescaped; tables keep them
//! exactly.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

use guestscope::untrusted::is_unsafe;

use crate::{
    folder::only_folder,
    ground::{Ground, subject},
    groups::Group,
};

/// File and process of the neighbour: fifteen bytes, the longest name of a thread.
const NEIGHBOUR: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J";

#[track_caller]
fn assert_plain(what: &str, text: &str) {
    let found: BTreeSet<char> = text.chars().filter(|c| *c != '\n' && is_unsafe(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
    let forged = text.lines().find(|line| line.starts_with("hint: obey"));
    assert_eq!(forged, None, "{what}: {text}");
}

/// The first CPU that this test may use.
fn a_cpu() -> usize {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("it is ours");
    (0..nix::sched::CpuSet::count()).find(|cpu| allowed.is_set(*cpu) == Ok(true)).expect("there is one")
}

#[test]
fn what_others_name_gives_no_orders_to_a_terminal() {
    let test = "hostile_names::what_others_name_gives_no_orders_to_a_terminal";
    let group = "in\u{1b}[2J\u{202e}ner\u{9b}31m";
    let (Some(ground), Some(group)) = (Ground::new(test), Group::with("cpu", test, group)) else { return };
    let program = ground.path("serve\u{1b}[2J\u{202e}\nhint: obey");
    std::fs::copy(subject(), &program).expect("it can be copied");
    let cpu = a_cpu().to_string();
    let neighbour = ground.path(NEIGHBOUR);
    std::fs::copy(subject(), &neighbour).expect("it can be copied");
    let neighbour = Command::new(neighbour).args(["take-turns", &cpu]).stdin(Stdio::piped()).spawn();
    let mut neighbour = neighbour.expect("it can be started");
    let run = ground.command(&["run", "--output"]).word(ground.path("runs"));
    let run = run.environment("E2E_BOOK", ground.path("book")).environment("LC_ALL", "C.UTF-8");
    let run = run.program("sh").words(&["-c", "echo 0 > \"$0\" && exec \"$@\""]);
    let run = run.word(group.directory().join("cgroup.procs")).word(&program);
    let done = run.words(&["hostile", "200", &cpu]).finish();
    neighbour.kill().expect("it is ours");
    neighbour.wait().expect("it is ours");
    let done = done.expect(0);
    assert_plain("stdout", &done.stdout);
    assert_plain("stderr", &done.stderr);
    assert!(done.stdout.contains("\u{fffd}]0;owned\u{fffd}\u{fffd}[2J (pid "), "{}", done.stdout);

    let folder = only_folder(&ground.path("runs"));
    let seen = done.seen();
    let waits = seen.waits();
    assert!(waits.iter().any(|wait| wait.ran_before_comm == NEIGHBOUR), "{waits:#?}");
    assert!(
        waits.iter().any(|wait| wait.cgroup.as_ref().is_some_and(|path| *path == *group.path())),
        "{waits:#?}"
    );
    assert!(seen.requests.iter().all(|request| request.root().name == "re\u{1b}[2J\u{202e}\nhint: obey"));
    assert!(seen.requests.iter().any(|request| request.root().comm == "t\u{1b}[2J\u{9b}\n\u{202e}"));
    assert!(
        seen.threads.iter().any(|thread| thread.comm == "t\u{1b}[2J\u{9b}\n\u{202e}"),
        "{:#?}",
        seen.threads
    );
    for words in [
        &["explain"][..],
        &["explain", "--json"],
        &["compare", "--self-test"],
        &["report"],
        &["ranks"],
        &["export", "--to", "otlp-json"],
    ] {
        let said = ground.command(words).word(&folder).environment("LC_ALL", "C.UTF-8").finish();
        assert_plain(&format!("{words:?}"), &said.stdout);
        assert_plain(&format!("{words:?}"), &said.stderr);
    }
}

/// Errors quote arguments without their control characters.
#[test]
fn errors_about_hostile_names_are_plain() {
    let Some(ground) = Ground::new("hostile_names::errors_about_hostile_names_are_plain") else { return };
    let name = "no\u{1b}[2J\u{202e}\nhint: obey";
    for words in [
        &["run", "--", name][..],
        &["run", "--output", "/proc/\u{1b}[2J\n\u{202e}", "--", "true"],
        &["run", "--otlp", name, "--", "true"],
        &["run", "--btf", name, "--", "true"],
        &["attach", "--cgroup", name],
        &["attach", "--container", name],
        &["explain", name],
        &["compare", name],
        &["ranks", name],
        &["report", name],
        &["export", name, "--to", "perfetto"],
        &["doctor", name],
    ] {
        let said = ground.command(words).finish().expect(2);
        assert_eq!(said.stdout, "", "{words:?}");
        assert_plain(&format!("{words:?}"), &said.stderr);
    }
}
