//! Every row of the workloads' own list under the agent, at smoke size: the folder has what the list
//! promises. The program gives the rows, so a new row is tested without a change here.

use std::{
    ffi::{CStr, OsStr, OsString},
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::{fd::FromRawFd as _, unix::ffi::OsStrExt as _},
    path::Path,
    process::Command,
    time::Duration,
};

use guestscope::{
    folder::State,
    phase::{PhaseKind, Request},
};
use serde_json::Value;

use crate::{
    coverage,
    folder::Seen,
    ground::{Ground, skipped, variable},
    running::Done,
};

/// Arguments beside `--smoke` with which a row lasts seconds on one CPU, and its shortest request 10 ms: on a
/// busy virtual machine an edge may take 5 us, and its time before a phase begins is outside of that phase.
/// One thread: with more, libtorch's threads busy-wait beside other load.
const EXTRAS: [(&str, &[&str]); 9] = [
    ("infer ic", &["--threads", "1"]),
    ("infer nlp", &["--threads", "1", "--scale", "0.1"]),
    ("infer rs", &["--threads", "1", "--scale", "0.01"]),
    ("infer sr", &["--threads", "1", "--scale", "0.1"]),
    ("h2o generate", &["flights.csv"]),
    ("h2o parse", &["--rows", "20000"]),
    ("h2o glm", &["--rows", "20000"]),
    ("h2o mlp", &["--rows", "20000", "--hidden", "2048,2048"]),
    ("train", &["--threads", "1", "--batch", "1"]),
];
/// Kinds of stalls that need two CPUs.
const TWO_CPUS: [&str; 3] = ["stall bounce", "stall helper-late", "stall spin-openmp"];

/// Why rows of GPUs are not run.
const NO_GPU: &str = "no NVIDIA GPU here";

/// Requests in which h2o rows read their flights before the first step, as `h2o parse` does.
const LOAD: &str = "load";
/// Requests in which missing flights are written to the cache, as `h2o generate` does.
const BLOCK: &str = "block";

/// A row of the list, without the columns that do not matter here.
struct Row {
    name: String,
    phases: Vec<String>,
}

#[test]
fn every_row_of_models_is_observed() {
    judge("listed::every_row_of_models_is_observed", &["infer"]);
}

#[test]
fn every_row_of_training_is_observed() {
    judge("listed::every_row_of_training_is_observed", &["train"]);
}

#[test]
fn every_row_of_h2o_is_observed() {
    judge("listed::every_row_of_h2o_is_observed", &["h2o"]);
}

#[test]
fn every_row_of_stalls_is_observed() {
    judge("listed::every_row_of_stalls_is_observed", &["stall"]);
}

/// A kind of workload that no test above names would not be tested.
#[test]
fn every_row_is_of_a_kind_that_is_run() {
    let Some(workloads) = program("listed::every_row_is_of_a_kind_that_is_run") else { return };
    let rows = rows(&workloads);
    assert!(rows.len() >= 30, "{}", rows.len());
    for Row { name, phases } in rows {
        let kind = name.split(' ').next().unwrap_or_default();
        assert!(["infer", "train", "h2o", "stall"].contains(&kind), "{name}");
        assert!(!phases.is_empty(), "{name}");
    }
}

fn program(test: &str) -> Option<OsString> {
    let found = variable("GUESTSCOPE_WORKLOADS_BIN");
    if found.is_none() {
        skipped(test, "GUESTSCOPE_WORKLOADS_BIN is not set");
    }
    found
}

fn rows(workloads: &OsStr) -> Vec<Row> {
    let output = Command::new(workloads).args(["list", "--json"]).output();
    let output = output.expect("GUESTSCOPE_WORKLOADS_BIN can be run");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("it prints a list");
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    rows.iter()
        .map(|row| Row {
            name: text(&row["name"]),
            phases: row["phases"].as_array().expect("each row has phases").iter().map(text).collect(),
        })
        .collect()
}

/// Runs all rows whose names begin with one of `kinds`.
fn judge(test: &str, kinds: &[&str]) {
    let Some(workloads) = program(test) else { return };
    let of_kind = |row: &Row| kinds.iter().any(|kind| row.name.split(' ').next() == Some(kind));
    let rows: Vec<Row> = rows(&workloads).into_iter().filter(of_kind).collect();
    assert!(!rows.is_empty());
    for row in rows {
        let own = format!("{test}, {}", row.name);
        if let Some(lacks) = lacks(&row.name) {
            // What needs a GPU may be skipped, also in CI.
            let begin = if lacks == NO_GPU { "gpu: " } else { "" };
            skipped(&format!("{begin}{own}"), lacks);
            continue;
        }
        for attempt in 1..=coverage::ATTEMPTS {
            let Some(ground) = Ground::new(&own) else { return };
            let done = observe(&ground, &workloads, &row);
            if done.code() == 2 && done.stderr.contains("this build has no libtorch") {
                skipped(&own, "the workloads were built without libtorch");
                break;
            }
            let least = check(&row, &row.name.replace(' ', "-"), &done.expect(0));
            if least >= coverage::LEAST {
                break;
            }
            assert!(
                attempt < coverage::ATTEMPTS,
                "{}: {least} of a request lies inside its phases",
                row.name
            );
        }
    }
}

/// One run of a row.
fn observe(ground: &Ground, workloads: &OsStr, row: &Row) -> Done {
    let name = row.name.replace(' ', "-");
    let start = ground.run().words(&["--name", &name]).environment("GUESTSCOPE_STOPPER", stopper());
    let start =
        start.environment("OMP_WAIT_POLICY", if name.contains("openmp") { "active" } else { "passive" });
    let words: Vec<&str> = row.name.split(' ').collect();
    let extras = EXTRAS.iter().filter(|(begin, _)| {
        row.name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    let extras: Vec<&str> = extras.flat_map(|(_, words)| words.iter().copied()).collect();
    let start = start.program(workloads).words(&words).words(&["--smoke", "--json"]).words(&extras);
    start.finish()
}

/// The other end of the line on which `stall pause` asks somebody to stop the machine; it answers after the
/// requested time and stops nothing: here only the row's requests matter, not a pause. Ends with the program.
fn stopper() -> OsString {
    let mut name = [0; 64];
    // SAFETY: a descriptor of our own, and a buffer as long as is said.
    let line = unsafe {
        let line = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(line >= 0 && libc::grantpt(line) == 0 && libc::unlockpt(line) == 0, "there are terminals");
        assert_eq!(libc::ptsname_r(line, name.as_mut_ptr(), name.len()), 0, "they have names");
        File::from_raw_fd(line)
    };
    // SAFETY: what was written there ends with a zero.
    let path = unsafe { CStr::from_ptr(name.as_ptr()) };
    std::thread::spawn(move || {
        let Ok(mut answers) = line.try_clone() else { return };
        for question in BufReader::new(line).lines().map_while(Result::ok) {
            let Some(Ok(ns)) = question.trim().strip_prefix("stop ").map(str::parse) else { continue };
            std::thread::sleep(Duration::from_nanos(ns));
            let _ = writeln!(answers, "stopped {ns}");
        }
    });
    OsStr::from_bytes(path.to_bytes()).to_owned()
}

/// The reason why this row cannot run here.
fn lacks(name: &str) -> Option<&'static str> {
    let has_one_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    if name.starts_with("stall gpu-") && !Path::new("/dev/nvidia0").exists() {
        return Some(NO_GPU);
    }
    (has_one_cpu && TWO_CPUS.contains(&name)).then_some("one CPU only")
}

/// Checks that hold however busy the machine is. Returns the smallest share of a request that lies inside its
/// phases.
fn check(row: &Row, name: &str, done: &Done) -> f64 {
    let seen = done.seen();
    let line = done.stdout.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = line.unwrap_or_else(|| panic!("{name} prints no line of JSON: {}", done.stdout));
    check_manifest(name, &seen, &line, &done.summary());
    let measured = line["steps"].as_u64().or(line["requests"].as_u64()).expect("it says how many there were");
    let aside = ["warmup", LOAD, if row.name == "h2o generate" { "" } else { BLOCK }];
    let found = seen.requests.iter().filter(|request| !aside.contains(&request.root().name.stored())).count();
    assert_eq!(found as u64, measured, "{name}");
    for request in &seen.requests {
        check_request(row, request);
    }
    seen.requests.iter().map(coverage::share).fold(1.0, f64::min)
}

fn check_manifest(name: &str, seen: &Seen, line: &Value, summary: &Value) {
    let manifest = &seen.manifest;
    assert_eq!((manifest.state, &*manifest.name), (State::Closed, name));
    assert_eq!(manifest.fidelity, "full", "{name}");
    assert!(!manifest.scenario.is_empty() && summary["scenario"] == manifest.scenario, "{name}");
    let workload = manifest.workload.as_ref().unwrap_or_else(|| panic!("{name} did not describe itself"));
    let hash = workload["work_hash"].as_str().unwrap_or_default();
    assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}: {workload:?}");
    for key in ["name", "work_hash", "output_hash"] {
        // Stalls have no outputs.
        assert_eq!(workload.get(key), line.get(key), "{name}: {key}");
    }
    assert_eq!(summary["exit_code"], 0, "{name}");
}

/// Its phases are the row's, in the row's order; some may be missing in this request.
fn check_request(row: &Row, request: &Request) {
    let root = request.root();
    assert_eq!(root.kind, PhaseKind::Request);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected: Vec<String> = match root.name.stored() {
        LOAD => names(&["read", "parse", "append"]),
        BLOCK => names(&["draw", "write"]),
        _ => row.phases.clone(),
    };
    let mut expected = expected.iter();
    for phase in &request.phases[1..] {
        assert_eq!((phase.parent, phase.kind), (Some(root.id), PhaseKind::Phase), "{}", row.name);
        let is_next = expected.any(|name| phase.name == **name);
        assert!(is_next, "{}: {} in {request:#?}", row.name, phase.name);
    }
    assert!(request.phases.len() > 1, "{}: {request:#?}", row.name);
    // Phases of a stall are marked one by one, as in ordinary programs, so there are gaps between them.
    assert!(row.name.starts_with("stall ") || coverage::is_whole(request), "{}: {request:#?}", row.name);
}
