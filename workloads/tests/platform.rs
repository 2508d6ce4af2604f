//! A job beside another one, and pinned threads, with the busy loop that needs no libtorch. No timing is
//! judged.

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};
use rstest::rstest;
use serde_json::Value;

use common::json;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(["infer", "loop", "--work", "10us"])
        .args(arguments)
        .current_dir(folder)
        .env("GUESTSCOPE_WORKLOAD_FILE", folder.join("workload.json"))
        .output()
        .expect("cargo built the binary for this test")
}

fn told(folder: &Path) -> Value {
    let text = fs::read(folder.join("workload.json")).expect("it is written");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// Whether a process has this among its arguments.
fn runs_with(word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(word))
}

#[test]
fn threads_stay_on_the_cpus_that_were_named() {
    let folder = tempfile::tempdir().unwrap();
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| set.is_set(*cpu).unwrap()).unwrap().to_string();
    json(&run(folder.path(), &["--requests", "2", "--json", "--pin", &first]));
    let told = told(folder.path());
    assert_eq!((&told["pin"], &told["pinned_cpus"]), (&first.as_str().into(), &first.as_str().into()));
    json(&run(folder.path(), &["--requests", "2", "--json", "--pin", "compact"]));
    let cpus = self::told(folder.path())["pinned_cpus"].as_str().unwrap().to_owned();
    assert!(cpus.parse::<u32>().is_ok(), "one worker needs one: {cpus}");
    let refused = run(folder.path(), &["--pin", "8000"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        error.starts_with("error: this process may not use a CPU of --pin: 8000 (it may use "),
        "{error}"
    );
}

/// Runs a job beside another one, for longer each time until the expected effect is seen.
fn beside(folder: &Path, command: &str, is_seen: impl Fn(&Output) -> bool) -> Output {
    for duration in ["1s", "4s", "16s", "64s"] {
        let output = run(folder, &["--duration", duration, "--json", "--beside", command]);
        if is_seen(&output) {
            return output;
        }
    }
    panic!("it was not seen within 64 s: {command}")
}

/// The job beside lives while the first one does, and is gone with it.
#[test]
fn a_job_beside_is_ended_with_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("beside.hgrm");
    let name = file.to_str().unwrap();
    let command = format!("infer loop --work 1ms --requests 10000000 --histogram '{name}'");
    let output = beside(folder.path(), &command, |_| file.exists());
    json(&output);
    assert_eq!(told(folder.path())["beside"], command);
    // The job made the file when it started, and never came to write it.
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    assert!(!runs_with(name));
}

#[test]
fn a_job_beside_that_fails_is_told_after_the_result() {
    let folder = tempfile::tempdir().unwrap();
    // No rate holds a microsecond: that is known after some trials.
    let command = "infer loop --work 1ms --scenario server --find-peak --qps 4000 --requests 44 --percentile 90 \
                   --target-latency 1us";
    let output = beside(folder.path(), command, |output| !output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.starts_with("error: the job beside ended too early: no rate holds the bound: "), "{error}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("the first one has its result");
    assert_eq!(result["name"], "loop");
}

#[rstest]
#[case::fails(
    "infer loop --histogram /nowhere/latency.hgrm",
    "cannot write histogram: /nowhere/latency.hgrm"
)]
#[case::has_no_steps("list", "it was done")]
fn a_job_beside_that_never_begins_is_refused(#[case] command: &str, #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--duration", "600s", "--beside", command]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert!(error.starts_with(&format!("error: the job beside ended too early: {says}")), "{error}");
}

#[test]
fn a_job_beside_that_is_done_too_early_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let command = "infer loop --work 10us --requests 1 --warmup 0";
    let output = beside(folder.path(), command, |output| !output.stderr.is_empty());
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("warning: the job beside was done before this one"), "{said}");
}

#[rstest]
#[case::no_command(&["--beside", "infer lop"], "error: no such command to run beside: infer lop (unrecognized subcommand 'lop'; there is 'loop')")]
#[case::open(&["--beside", "infer 'loop"], "a quotation mark is never closed")]
#[case::no_libtorch(&["--device", "cuda"], "error: no libtorch takes part, so there is no use of --device")]
#[case::no_pinned_memory(&["--input-memory", "pinned"], "error: no libtorch takes part, so there is no use of --input-memory")]
#[case::no_waits(&["--blocking-sync"], "error: no libtorch takes part, so there is no use of --blocking-sync")]
#[case::no_device(&["--device", "gpu"], "a device is cpu, cuda, cuda:N or auto")]
#[case::no_pin(&["--pin", "3-1"], "CPUs are a list like 0-3,8, or spread, or compact, or so many of them like spread:4")]
fn what_cannot_be_is_refused(#[case] arguments: &[&str], #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert!(error.contains(says), "{error}");
}
