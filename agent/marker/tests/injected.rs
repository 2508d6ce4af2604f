//! What libguestscope-inject.so makes of a program's NVTX ranges and ITT tasks: a C program that hands over
//! tables of functions as the headers do, under the tracer of tests/tracer.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;
mod tracer;
mod wire;

use std::process::Command;

use rstest::rstest;
use tracer::{Trace, trace};
use wire::{Edge, script};

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(reason: &str) {
    println!("skipped: injected: {reason}");
}

fn program(compiler: &str, scene: &str) -> Option<Command> {
    let mut command = Command::new(library::injected_program(compiler)?);
    command.arg(scene).env("NVTX_INJECTION64_PATH", library::injection());
    Some(command)
}

/// The edges of a scene; none where nothing can be compiled or traced here.
fn run(scene: &str) -> Option<Trace> {
    let Some(mut command) = program("cc", scene) else {
        skipped("no C compiler");
        return None;
    };
    trace(&mut command).inspect_err(|reason| skipped(reason)).ok()
}

/// Without what a source says of itself.
fn phases(edges: &[Edge]) -> Vec<String> {
    let edges: Vec<Edge> = edges.iter().filter(|edge| edge.operation() != 10).cloned().collect();
    script(&edges)
}

const LARGE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const LARGE_IN_LARGE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

#[rstest]
#[case::nested("nested", "1\n-2 -2\n", &[
    "begin 1.0 request 7", "begin 1.1 load 0", "begin 1.2 data/decode 0", "begin 1.3 data/größe 0", "mark 0 here",
    "end 1.3", "end 1.2", "end 1.1", "begin 1.4 data/io 0", "end 1.4", "begin 1.5 last 0", "end 1.5", "end 1.0",
])]
#[case::interleaved("interleaved", "1\n", &[
    "begin 1.0 one/a 0", "begin 1.1 two/b 0", "leave 1.1", "end 1.0", "enter 1.1", "end 1.1",
    "begin 2.0 c 0", "begin 2.1 d 0", "leave 2.1", "end 2.0", "enter 2.1", "end 2.1", "enter 2.1", "end 2.1",
])]
#[case::tasks("tasks", "1\n1 1 1\n", &[
    "begin 1.0 early/step 0", "begin 1.1 mine 0", "mark 0 mark", "end 1.1", "end 1.0",
    "begin 2.0 step 0", "begin 2.1 frame 0", "leave 2.1", "end 2.0", "enter 2.1", "end 2.1",
    "begin 3.0 frames/frame 0", "begin 3.1 (function) 0", "end 3.1", "end 3.0",
    "mark 0 event", "begin 4.0 event 0", "end 4.0", "begin 5.0 (unnamed) 0", "end 5.0",
])]
fn ranges_and_tasks_become_phases(#[case] scene: &str, #[case] output: &str, #[case] expected: &[&str]) {
    let Some(trace) = run(scene) else { return };
    assert_eq!(phases(&trace.edges), expected);
    assert_eq!(trace.output, output);
    let sources: Vec<u64> = trace
        .edges
        .iter()
        .filter(|edge| edge.operation() == 1)
        .map(|edge| edge.arguments[3] >> 32 & 0xff)
        .collect();
    assert!(sources.iter().all(|source| *source == if scene == "tasks" { 4 } else { 3 }), "{sources:?}");
}

#[test]
fn whatever_a_program_passes_it_is_not_broken() {
    let Some(trace) = run("hostile") else { return };
    let begun = trace.edges.iter().filter(|edge| edge.operation() == 1);
    let names: Vec<(&str, bool)> =
        begun.map(|edge| (edge.name.as_str(), edge.arguments[3] & 0xffff_ffff > 64)).collect();
    let expected = [
        ("(unnamed)", false),
        (LARGE, true),
        ("\u{fffd}\u{fffd}", false),
        ("\u{fffd}\u{fffd}a", false),
        ("(unnamed)", false),
        ("(unnamed)", false),
        ("(unnamed)", false),
        ("?/nowhere", false),
        ("(unnamed)/(unnamed)", false),
        (LARGE_IN_LARGE, true),
    ];
    assert_eq!(names, expected);
    // A number that was never a range's is passed on, and the agent counts it; nothing was open when the rest
    // ended.
    let ends = trace.edges.iter().filter(|edge| edge.operation() == 3).count();
    assert_eq!(ends, expected.len() - 2 + 1);
}

#[test]
fn a_range_that_another_thread_ends_is_learned_to_be_no_threads() {
    let Some(trace) = run("crossing") else { return };
    let crossing: Vec<Edge> = trace.edges.iter().filter(|edge| edge.operation() != 10).cloned().collect();
    let main = crossing[0].thread;
    let lines = script(&crossing);
    let lines: Vec<(bool, &str)> =
        crossing.iter().map(|edge| edge.thread == main).zip(lines.iter().map(String::as_str)).collect();
    let expected = [
        (true, "begin 1.0 crossing 0"),
        (true, "begin 1.1 inside 0"),
        (false, "enter 1.0"),
        (false, "end 1.0"),
        (true, "end 1.1"),
        // Known by now: it is left at once. The marker was not told that its root has ended elsewhere.
        (true, "begin 1.2 crossing 0"),
        (true, "leave 1.2"),
        (true, "begin 1.3 inside 0"),
        (false, "enter 1.2"),
        (false, "end 1.2"),
        (true, "end 1.3"),
        (true, "begin 1.4 crossing 0"),
        (true, "leave 1.4"),
        (true, "begin 1.5 inside 0"),
        (false, "enter 1.4"),
        (false, "end 1.4"),
        (true, "end 1.5"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn ranges_deeper_than_there_is_room_for_are_left_out_and_told() {
    let Some(trace) = run("deep") else { return };
    let count = |operation| trace.edges.iter().filter(|edge| edge.operation() == operation).count();
    assert_eq!((count(1), count(3)), (128 + 1, 128 + 1));
    assert!(trace.edges.iter().any(|edge| edge.operation() == 10 && edge.name.starts_with("!more than 128")));
    assert_eq!(phases(&trace.edges).last().map(String::as_str), Some("end 2.0"));
}

#[test]
fn a_forked_child_and_a_thread_that_ends_inside_leave_nothing_behind() {
    let Some(trace) = run("forked") else { return };
    let mut lines = phases(&trace.edges);
    lines.sort();
    let one = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((one("begin"), one("end ")), (2, 2), "the child does not end its parent's: {lines:?}");
    let Some(trace) = run("leaving") else { return };
    let count = |operation| trace.edges.iter().filter(|edge| edge.operation() == operation).count();
    assert_eq!((count(1), count(3)), (3, 1));
}

#[test]
fn kinds_of_tasks_that_are_too_short_are_left_out_and_told() {
    let Some(trace) = run("kinds") else { return };
    let begun =
        |name: &str| trace.edges.iter().filter(|edge| edge.operation() == 1 && edge.name == name).count();
    // A library's are hidden for the first eight, and again once most of 64 were too short; a program's own
    // are shown until 64 were.
    let names = ["oneDNN/convolution", "oneDNN/reorder", "own/tiny", "oneDNN/create"];
    assert_eq!(names.map(begun), [92, 0, 64, 64]);
    let is_detail = |edge: &&Edge| edge.arguments[3] >> 40 & 1 == 1;
    assert_eq!(trace.edges.iter().filter(is_detail).count(), 92 + 64, "what a library says of its inside");
    let told: Vec<&str> =
        trace.edges.iter().filter(|edge| edge.operation() == 10).map(|edge| edge.name.as_str()).collect();
    let expected = [
        "+NVTX 3",
        "+ITT 3.26",
        "!reorder: under 20 us each, left out",
        "!tiny: under 20 us each, left out",
        "!create: under 20 us each, left out",
    ];
    assert_eq!(told, expected);
    let Some(mut command) = program("cc", "kinds") else { return };
    let Ok(trace) = trace_all(&mut command) else { return };
    let all = trace.edges.iter().filter(|edge| edge.operation() == 1).count();
    assert_eq!(all, 400, "asked for");
}

fn trace_all(command: &mut Command) -> Result<Trace, String> {
    trace(command.env("GUESTSCOPE_ITT", "all"))
}

/// Whichever the C library is.
#[rstest]
#[case::glibc("cc")]
#[case::musl("musl-gcc")]
fn without_an_agent_a_program_sees_what_it_sees_without_the_library(#[case] compiler: &str) {
    let Some(mut command) = program(compiler, "nothing") else { return skipped(compiler) };
    let output = command.env_remove("GUESTSCOPE_NOTIFY").output().expect("it was just compiled");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n-2 -2 1\n");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
