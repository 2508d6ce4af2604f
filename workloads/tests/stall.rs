//! `guestscope-workloads stall` as a program: its log and report, that a seed decides what happens, its
//! errors, and that it leaves nothing behind however it ends.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use guestscope_workloads::stall::{
    machine::{cpus, hierarchy::Hierarchy},
    schedule::Schedule,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rstest::rstest;
use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.arg("stall").args(arguments).args(["--work", "100us"]).env_remove("GUESTSCOPE_WORKLOAD_FILE");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("cargo built the binary for this test")
}

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(kind: &str, reason: &str) {
    println!("skipped: stall.{kind}: {reason}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

/// The log and the report of a run that must succeed.
fn injected(arguments: &[&str]) -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let log = folder.path().join("truth.jsonl");
    let path = log.to_str().expect("the folder's name is plain");
    let output = run(&[arguments, &["--json", "--log", path]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let lines = fs::read_to_string(&log).expect("the log was written");
    let parsed = lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    (parsed.collect(), serde_json::from_slice(&output.stdout).expect("the report is JSON"))
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} in {line}"))
}

#[test]
fn the_log_tells_of_every_request_where_it_is_asked_to() {
    let (log, _) = injected(&["sleep", "--size", "1ms", "--requests", "12", "--every", "4", "--log-spared"]);
    let requests: Vec<u64> = log.iter().map(|line| number(line, "request")).collect();
    assert_eq!(requests, (0..12).collect::<Vec<u64>>(), "one line of each, in order");
    let (spared, hit): (Vec<&Value>, Vec<&Value>) = log.iter().partition(|line| line["kind"] == "spared");
    assert_eq!((spared.len(), hit.len()), (9, 3));
    for line in spared {
        let [wall_ns, cpu_ns] = ["wall_ns", "cpu_ns"].map(|name| number(line, name));
        assert!(cpu_ns > 0 && wall_ns > 0 && line["run_delay_ns"].is_u64(), "{line}");
    }
    let output = run(&["sleep", "--log-spared"]);
    assert_eq!(output.status.code(), Some(2), "there is no log to tell it to");
}

#[test]
fn the_log_says_what_the_schedule_planned() {
    let arguments =
        ["sleep", "--size", "1ms", "--requests", "40", "--every", "4", "--spread", "50", "--seed", "3"];
    let (log, report) = injected(&arguments);
    let schedule = Schedule { seed: 3, every: 4, spread_percent: 50 };
    let planned: Vec<(u64, u64)> = (0..40)
        .filter(|request| schedule.hits(*request))
        .map(|request| (request, schedule.size(request, 0, 1_000_000)))
        .collect();
    let found: Vec<(u64, u64)> =
        log.iter().map(|line| (number(line, "request"), number(line, "asked_ns"))).collect();
    assert_eq!(found, planned);
    let mut over_ns = 0;
    for line in &log {
        assert_eq!(line["kind"], "sleep");
        let (start_ns, wall_ns) = (number(line, "start_ns"), number(line, "wall_ns"));
        assert!(start_ns >= over_ns, "one after the other");
        over_ns = start_ns + wall_ns;
        assert!(number(line, "asked_ns") <= number(line, "ns") && number(line, "ns") <= wall_ns);
        assert!(number(line, "cpu_ns") <= wall_ns);
        assert_eq!((line.get("count"), line.get("asked_count")), (None, None));
    }
    assert_eq!(report["faults"], "sleep:1ms");
    let total = &report["injected"][0];
    assert_eq!((number(total, "times"), number(&report, "requests")), (10, 40));
    assert_eq!(number(total, "ns"), log.iter().map(|line| number(line, "ns")).sum::<u64>());
    assert!(number(&report["hit_ns"], "p50") >= 500_000);
}

#[test]
fn a_mixture_hits_the_same_requests_in_order() {
    let arguments = ["touch", "--count", "16KiB", "--and", "sleep:300us", "--and", "lock", "--requests", "6"];
    let (log, report) = injected(&[&arguments[..], &["--every", "3"]].concat());
    let kinds: Vec<&str> = log.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["touch", "sleep", "lock", "touch", "sleep", "lock"]);
    for same in log.chunks(3) {
        assert!(same.iter().all(|line| line["request"] == same[0]["request"]));
        assert!(number(&same[0], "count") >= number(&same[0], "asked_count"));
        assert_eq!(number(&same[0], "asked_count"), 4);
        assert_eq!(number(&same[2], "asked_ns"), 20_000_000);
    }
    assert_eq!(report["faults"], "touch:4+sleep:300us+lock:20ms");
    assert_eq!(report["injected"].as_array().unwrap().len(), 3);
}

#[test]
fn a_seed_decides_which_requests_are_hit() {
    let hit = |seed: &str| -> Vec<u64> {
        let (log, _) =
            injected(&["sleep", "--size", "10us", "--requests", "60", "--every", "6", "--seed", seed]);
        log.iter().map(|line| number(line, "request")).collect()
    };
    assert_eq!(hit("5"), hit("5"));
    assert_ne!(hit("5"), hit("6"));
}

#[test]
fn guestscope_learns_what_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workload.json");
    let mut command = command(&["sleep", "--size", "10us", "--requests", "3"]);
    let output = command.env("GUESTSCOPE_WORKLOAD_FILE", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let identity: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&identity["name"], &identity["faults"]), (&"stall".into(), &"sleep:10us".into()));
}

#[rstest]
#[case::kind("stall_kind", &["slep"])]
#[case::size("stall_size", &["sleep", "--size", "20min"])]
#[case::unit("stall_unit", &["sleep", "--size", "20"])]
#[case::unit_of_an_addition("stall_unit_and", &["sleep", "--and", "bounce:4ms"])]
#[case::range("stall_range", &["spin-neighbour", "--size", "2s"])]
#[case::spread("stall_spread", &["spin-neighbour", "--size", "400ms", "--spread", "50"])]
#[case::addition("stall_addition", &["sleep", "--and", "nap:4ms"])]
#[case::twice("stall_twice", &["sleep", "--and", "lock", "--and", "sleep:1ms"])]
#[case::work("stall_work", &["sleep", "--work", "4MiB"])]
#[case::little_work("stall_little_work", &["sleep", "--work", "999"])]
#[case::log("stall_log", &["sleep", "--log", "/nowhere/truth.jsonl"])]
#[case::folder("stall_folder", &["fault", "--folder", "/nowhere"])]
fn refuses(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    let output = command.arg("stall").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    insta::with_settings!({ filters => vec![(r"\.guestscope-(\w+)-\d+", ".guestscope-$1-PROCESS")] }, {
        insta::assert_snapshot!(snapshot, text(&output.stderr));
    });
}

/// A child may use the CPUs of the thread that starts it.
#[rstest]
#[case("bounce")]
#[case("helper-late")]
fn one_cpu_is_too_few(#[case] kind: &str) {
    let cpu = cpus::current().unwrap();
    cpus::bind(0, cpu).unwrap();
    let output = run(&[kind]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("error: `{kind}` needs two CPUs, and this process may use: 1\n\nhint: ");
    assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
}

#[test]
fn memory_is_no_disk() {
    if !Path::new("/dev/shm").exists() {
        return skipped("memory", "no /dev/shm");
    }
    let output = run(&["fault", "--folder", "/dev/shm"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: `fault` needs a file on a disk, and this folder is in memory: /dev/shm\n\nhint: ";
    assert!(text(&output.stderr).starts_with(expected), "{}", text(&output.stderr));
}

/// Groups made by the child.
fn groups(child: &Child) -> Vec<String> {
    let own = format!("guestscope-stall-{}-", child.id());
    let Ok(hierarchy) = Hierarchy::find() else { return Vec::new() };
    let parents = [hierarchy.home, hierarchy.mount].map(|parent| fs::read_dir(parent).into_iter().flatten());
    let names = parents.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(&own)).collect()
}

#[rstest]
#[case(Signal::SIGINT)]
#[case(Signal::SIGTERM)]
fn a_signal_ends_the_run_and_removes_its_group(#[case] signal: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth.jsonl");
    let arguments =
        ["quota", "--size", "2ms", "--every", "2", "--requests", "1000000", "--log", log.to_str().unwrap()];
    let mut child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    // In the middle of its requests: some were hit, and the next is running.
    while fs::read_to_string(&log).map_or(0, |text| text.lines().count()) < 3 {
        assert!(patience.elapsed() < Duration::from_mins(1), "no request was hit");
        if let Some(status) = child.try_wait().unwrap() {
            let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
            assert!(status.code() == Some(2) && line.contains("cgroup"), "{status} {line}");
            return skipped("quota", &line);
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!groups(&child).is_empty());
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(groups(&child).is_empty(), "{:?}", groups(&child));
    assert_eq!(status.code(), Some(2));
    let said = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(said.starts_with("error: stopped by a signal after so many requests: "), "{said}");
}
