//! Requests that take turns on threads: each is charged its own work; while it waits it is on no thread.
//!
//! The programs report each request's work by the thread's CPU clock. The agent must find at least that, and
//! little more if nothing interrupted the program.

use std::{path::Path, time::Duration};

use guestscope::phase::{Phase, PhaseKind, Request};
use serde_json::Value;

use crate::{
    folder::{Seen, phase},
    ground::{Ground, file, interleaved_tokio, python},
    main_job::hex,
    running::Start,
};

const REQUESTS: u64 = 4;
/// Work of a step, ms; a request has two. A phase that got a neighbour's work would be wrong by half of its
/// time or more.
const WORK_MS: &str = "40";
const AWAIT_MS: &str = "60";
/// What interrupts, page faults and the marker may add to a phase on a busy machine: a quarter of a step.
const MOST_EXTRA_NS: u64 = 10_000_000;
/// What may be added on an idle machine, beside 1 %: the entry and exit of the function.
const LEAST_EXTRA_NS: u64 = 100_000;

#[test]
fn asyncio_tasks() {
    let test = "interleaved::asyncio_tasks";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    check(&ground, &python, &[&file("marker/tests/programs/interleaved_asyncio.py")], &[]);
}

#[test]
fn tokio_tasks_on_two_threads() {
    let Some(ground) = Ground::new("interleaved::tokio_tasks_on_two_threads") else { return };
    check(&ground, &interleaved_tokio(), &[], &["--threads", "2"]);
}

#[test]
fn tokio_tasks_on_one_thread() {
    let Some(ground) = Ground::new("interleaved::tokio_tasks_on_one_thread") else { return };
    check(&ground, &interleaved_tokio(), &[], &["--threads", "0"]);
}

fn check(ground: &Ground, program: &Path, script: &[&Path], more: &[&str]) {
    let count = REQUESTS.to_string();
    let start = script.iter().fold(ground.run().program(program), Start::word);
    let start =
        start.words(&["--requests", &count, "--work-ms", WORK_MS, "--await-ms", AWAIT_MS]).words(more);
    let done = start.finish().expect(0);
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    assert_eq!(seen.named("request").len() as u64, REQUESTS);
    assert_eq!(done.summary()["requests"], REQUESTS);

    let lines: Vec<Value> = done.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let lines: Vec<&Value> = lines.iter().filter(|line| line.get("busy_ns").is_some()).collect();
    assert_eq!(lines.len() as u64, REQUESTS, "{}", done.stdout);
    let mut least_extra_ns = u64::MAX;
    for line in lines {
        let number = line["request"].as_u64().expect("requests have numbers");
        let mut requests = seen.requests.iter().filter(|request| request.root().request == number);
        let request = requests.next().expect("each request is seen");
        least_extra_ns = least_extra_ns.min(check_request(request, line));
        check_mark(&seen, request);
    }
    let step_ns = WORK_MS.parse::<u64>().expect("a number") * 1_000_000;
    assert!(
        least_extra_ns <= LEAST_EXTRA_NS + step_ns / 100,
        "the best `prepare` has {least_extra_ns} ns too much"
    );
}

fn number(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("{key}: {line}"))
}

/// Compares a request with its own report; returns by how much its phase `prepare` exceeds the report.
fn check_request(request: &Request, line: &Value) -> u64 {
    let root = request.root();
    let names: Vec<&str> = request.phases[1..].iter().map(|phase| phase.name.stored()).collect();
    assert_eq!(names, ["prepare", "fetch", "finish"]);
    for child in &request.phases[1..] {
        assert_eq!((child.parent, child.kind), (Some(root.id), PhaseKind::Phase));
    }
    let header = line["traceparent"].as_str().expect("the library was found");
    let ids = format!("00-{}-{}-01", hex(&root.trace.trace_id), hex(&root.trace.span_id));
    assert_eq!(header, ids);

    assert!(root.duration_ns >= number(line, "wall_ns"), "{root:?}: {line}");
    check_times(root, line);
    for part in line["phases"].as_array().expect("phases are a list") {
        let found = phase(request, part["name"].as_str().unwrap_or_default());
        check_times(found, part);
        let most_ns = number(part, "busy_ns") + MOST_EXTRA_NS;
        assert!(own_cpu(found) <= most_ns, "{found:?}: {part}");
    }
    let prepare = &line["phases"][0];
    own_cpu(phase(request, "prepare")).saturating_sub(number(prepare, "busy_ns"))
}

/// CPU time without stolen time, which the program's CPU clock leaves out.
fn own_cpu(phase: &Phase) -> u64 {
    cpu(phase).saturating_sub(phase.counts.steal_ns)
}

fn cpu(phase: &Phase) -> u64 {
    phase.accounts.0[guestscope_contract::Account::Cpu as usize]
}

/// At least the program's own measurement. NTP may slew one of the two clocks by 500 ppm.
fn check_times(phase: &Phase, said: &Value) {
    let busy_ns = number(said, "busy_ns");
    assert!(cpu(phase) >= busy_ns - busy_ns / 1000, "{phase:?}: {said}");
    let await_ns = number(said, "await_ns");
    assert!(phase.suspended_ns >= await_ns - await_ns / 1000, "{phase:?}: {said}");
    // While a task awaits something, no thread waits for it.
    let slept = phase.accounts.get(guestscope_contract::Account::Sleep)
        + phase.accounts.get(guestscope_contract::Account::Poll);
    assert!(Duration::from_nanos(slept) < Duration::from_millis(10), "{phase:?}");
}

/// Each request fires one mark in itself, on its own thread.
fn check_mark(seen: &Seen, request: &Request) {
    let ids: Vec<u64> = request.phases.iter().map(|phase| phase.id).collect();
    let marks = seen.marks.iter().filter(|mark| mark.phase.is_some_and(|phase| ids.contains(&phase)));
    let marks: Vec<_> = marks.collect();
    assert_eq!(marks.len(), 1, "{:?}", seen.marks);
    assert_eq!((marks[0].name.stored(), marks[0].phase), ("started", Some(request.root().id)));
}
