//! A job of several processes that is started as one, as people and the agent see it: a bar on a terminal,
//! nothing in a pipe, and the parameter server's report of its work.
#![cfg(feature = "torch")]

mod common;

use std::{
    ffi::CStr,
    fs::{self, File, OpenOptions},
    io::Read as _,
    os::fd::FromRawFd as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rstest::rstest;
use serde_json::Value;

use common::json;

/// Two workers of two steps each, one of them for warm-up.
const SMALL: [&str; 3] = ["2", "2", "1"];

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.args(["train", "mnist", "--threads", "1", "--json"]).args(arguments);
    command.env_remove("GUESTSCOPE_WORKLOAD_FILE").stdin(Stdio::null());
    command
}

/// A terminal: the end that a person sees, and the end that a program writes to.
fn terminal() -> (File, File) {
    let mut name = [0; 64];
    // SAFETY: a descriptor of our own, and a buffer as long as is said.
    let seen = unsafe {
        let seen = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(seen >= 0 && libc::grantpt(seen) == 0 && libc::unlockpt(seen) == 0, "there are terminals");
        assert_eq!(libc::ptsname_r(seen, name.as_mut_ptr(), name.len()), 0, "they have names");
        File::from_raw_fd(seen)
    };
    // SAFETY: what was written there ends with a zero.
    let path = unsafe { CStr::from_ptr(name.as_ptr()) };
    let path = path.to_str().expect("it is a number below /dev/pts");
    let written = OpenOptions::new().read(true).write(true).open(path).expect("it is unlocked");
    (seen, written)
}

/// The numbers of finished steps that the bar showed, of `of` steps.
fn drawn(text: &str, of: u64) -> Vec<u64> {
    let of = format!("/{of} steps");
    let before = text.match_indices(&of).map(|(at, _)| &text[..at]);
    before
        .map(|before| {
            let digits = before.rsplit(|letter: char| !letter.is_ascii_digit()).next();
            digits.unwrap_or_default().parse().expect("a number of steps")
        })
        .collect()
}

/// What a job of two workers and 1 + 40 steps shows on a terminal.
fn shown(guestscope: Option<&Path>) -> String {
    let (mut seen, written) = terminal();
    let mut command = program(&["--workers", "2", "--batch", "8", "--steps", "40", "--warmup", "1"]);
    command.env("TERM", "xterm").stdout(Stdio::piped()).stderr(written);
    command.envs(guestscope.map(|file| ("GUESTSCOPE_WORKLOAD_FILE", file)));
    let process = command.spawn().expect("cargo built the binary for this test");
    // The command holds the other end of the terminal.
    drop(command);
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        // An error at the end: the last one who could write has gone.
        let _ = seen.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    });
    let output = process.wait_with_output().expect("it is a child");
    let shown = reader.join().expect("it reads");
    assert!(output.status.success(), "{shown}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON, and no bar in it");
    assert_eq!(report["worker_reports"].as_array().map(Vec::len), Some(2));
    shown
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    let shown = shown(None);
    let steps = drawn(&shown, 41);
    assert!(steps.iter().any(|done| *done > 0), "{shown:?}");
    assert!(steps.is_sorted() && steps.iter().all(|done| *done <= 41), "{steps:?}");
    assert!(!shown.contains("steps done: "), "what workers tell is not for people: {shown:?}");
    let last = shown.rfind(" steps").expect("a bar was drawn");
    assert!(shown[last..].contains("\u{1b}[2K"), "the line is left empty: {shown:?}");
}

/// guestscope draws a bar of its own.
#[test]
fn guestscope_is_not_drawn_over() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(shown(Some(&folder.path().join("told.json"))), "");
}

/// What a job of so many workers, images and steps prints in a pipe; it says nothing else.
fn report([workers, batch, steps]: [&str; 3], more: &[&str]) -> Value {
    let sizes = ["--workers", workers, "--batch", batch, "--steps", steps, "--warmup", "1"];
    let output = program(&[&sizes, more].concat()).output();
    json(&output.expect("cargo built the binary for this test"))
}

/// The hashes by which `compare` tells the work and output of two parameter servers apart.
fn hashes(sizes: [&str; 3], more: &[&str]) -> [Value; 2] {
    let report = report(sizes, more);
    let server = &report["server_report"];
    assert!(server["work_hash"].as_str().is_some_and(|hash| hash.len() == 16), "{server}");
    // The whole job and its workers have one where the server has one.
    let is_claimed = |part: &Value| part.get("output_hash").is_some();
    for part in report["worker_reports"].as_array().into_iter().flatten().chain([&report]) {
        assert_eq!(is_claimed(part), is_claimed(server), "{part}");
    }
    if let Some(hash) = server.get("output_hash") {
        assert_eq!(*hash, report["parameters_hash"]);
    }
    ["work_hash", "output_hash"].map(|name| server.get(name).cloned().unwrap_or_default())
}

#[test]
fn a_server_of_the_same_work_has_the_same_hashes() {
    let (first, again) = (hashes(SMALL, &[]), hashes(SMALL, &[]));
    assert!(first[1].is_string(), "{first:?}");
    assert_eq!(first, again);
}

#[rstest]
#[case::workers(["1", "2", "1"], &[])]
#[case::batch(["2", "3", "1"], &[])]
#[case::steps(["2", "2", "2"], &[])]
#[case::seed(SMALL, &["--seed", "2"])]
#[case::learning_rate(SMALL, &["--learning-rate", "0.02"])]
// The output depends on the order of arrival, so there is no output hash.
#[case::asynchronous(SMALL, &["--asynchronous"])]
fn a_server_of_other_work_has_other_hashes(#[case] sizes: [&str; 3], #[case] more: &[&str]) {
    let (one, other) = (hashes(SMALL, &[]), hashes(sizes, more));
    assert!(one[0] != other[0] && one[1] != other[1], "{one:?} {other:?}");
    assert_eq!(other[1].is_null(), more.contains(&"--asynchronous"));
}

/// Processes that any thread of the process has started, by the kernel's lists.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|number| number.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether the process still runs; it may be a zombie.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_mins(1), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Without its launcher it has nobody to report to, and would keep memory and CPUs for ever.
#[test]
fn a_job_whose_launcher_is_killed_ends() {
    let words = ["--workers", "2", "--batch", "4", "--steps", "1000000", "--warmup", "0"];
    let mut command = program(&words);
    let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a server and two workers are started", || children(launcher.id()).len() == 3);
    let parts = children(launcher.id());
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    wait_until("they end", || !parts.iter().any(|&part| lives(part)));
}
