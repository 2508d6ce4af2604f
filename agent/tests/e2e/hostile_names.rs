//! Terminal control sequences in every name that others choose: the thread of an unobserved neighbour, the
//! program's file, phases and threads, its control group. No reader sees them unescaped; tables keep them
//! exactly.

use std::{
    collections::BTreeSet,
    ffi::CString,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use guestscope::untrusted::is_unsafe;

use crate::{
    folder::only_folder,
    ground::{Ground, LIMIT, subject},
    groups::Group,
};

/// Fifteen bytes, the longest name of a thread.
const NEIGHBOUR: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J";

#[track_caller]
fn assert_plain(what: &str, text: &str) {
    let found: BTreeSet<char> = text.chars().filter(|c| *c != '\n' && is_unsafe(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
    let forged = text.lines().find(|line| line.starts_with("hint: obey"));
    assert_eq!(forged, None, "{what}: {text}");
}

/// Takes the CPU from all other threads, again and again, until it is stopped.
fn take_turns(cpu: usize, stop: &AtomicBool) {
    let name = CString::new(NEIGHBOUR).expect("it has no zero");
    let mut only = nix::sched::CpuSet::new();
    only.set(cpu).expect("it is a CPU");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &only).expect("root may");
    // SAFETY: all zeros are a value of it; musl has more fields in it than glibc.
    let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
    priority.sched_priority = 2;
    // SAFETY: the name and the parameter live across the calls, which change this thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
    }
    let end = Instant::now() + LIMIT;
    while !stop.load(Relaxed) && Instant::now() < end {
        let turn = Instant::now() + Duration::from_millis(15);
        while Instant::now() < turn {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(120));
    }
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
    let (Some(ground), Some(group)) = (Ground::new(test), Group::of_cpu_time(test, group)) else { return };
    let program = ground.path("serve\u{1b}[2J\u{202e}\nhint: obey");
    std::fs::copy(subject(), &program).expect("it can be copied");
    let (cpu, stop) = (a_cpu(), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| take_turns(cpu, &stop));
        let run = ground.command(&["run", "--output"]).word(ground.path("runs"));
        let run = run.environment("E2E_BOOK", ground.path("book")).environment("LC_ALL", "C.UTF-8");
        let run = run.program("sh").words(&["-c", "echo 0 > \"$0\" && exec \"$@\""]);
        let run = run.word(group.directory().join("cgroup.procs")).word(&program);
        let done = run.words(&["hostile", "200", &cpu.to_string()]).finish();
        stop.store(true, Relaxed);
        done
    });
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
        &["report", name],
        &["export", name, "--to", "perfetto"],
        &["doctor", name],
    ] {
        let said = ground.command(words).finish().expect(2);
        assert_eq!(said.stdout, "", "{words:?}");
        assert_plain(&format!("{words:?}"), &said.stderr);
    }
}
