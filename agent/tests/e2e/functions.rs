//! Calls of functions as phases, in a C program that calls them in every way, and intervals between USDT
//! probes.
//!
//! The program prints the same with and without the agent; its calls are known, so each must be found or
//! counted.

use std::{path::PathBuf, process::Command};

use guestscope::phase::Ending;
use rstest::rstest;

use crate::{
    ground::{Ground, eventually, file, python, skipped},
    running::{Done, Start},
};

/// Compiles one of the tests' programs into the test's folder; none, with a note on stdout, without a
/// compiler.
pub(crate) fn compiled(
    ground: &Ground,
    test: &str,
    (source, name): (&str, &str),
    words: &[&str],
) -> Option<PathBuf> {
    let compiler = if source.contains(".cc") { "c++" } else { "cc" };
    let Ok(compiler) = guestscope::child::resolve(compiler) else {
        skipped(test, "no C compiler");
        return None;
    };
    let program = ground.path(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g0", "-o"]).arg(&program).arg(file("tests/data/e2e").join(source)).args(words);
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn program(ground: &Ground, test: &str) -> Option<PathBuf> {
    compiled(ground, test, ("functions.c", "functions"), &["-lpthread", "-ldl"])
}

pub(crate) fn with(mut start: Start, phases: &[&str]) -> Start {
    for phase in phases {
        start = start.words(&["--phase", phase]);
    }
    start
}

/// Messages of the source about a phase: what it found and what it could not find.
pub(crate) fn told(done: &Done, source: &str, phase: &str) -> Vec<String> {
    let summary = done.summary();
    let sources = summary["sources"].as_array().expect("a list");
    let source = sources.iter().find(|one| one["source"] == source).expect("it was on");
    let words = |key: &str| source[key].as_array().cloned().unwrap_or_default();
    let all = words("found").into_iter().chain(words("missed"));
    let begin = format!("{phase}: ");
    all.filter_map(|text| text.as_str()?.strip_prefix(&begin).map(str::to_owned)).collect()
}

/// The messages about a function contain each of these texts.
fn assert_told(done: &Done, phase: &str, parts: &[&str]) {
    let told = told(done, "function", phase);
    for part in parts {
        assert!(told.iter().any(|text| text.contains(part)), "{part}: {told:#?}");
    }
}

#[test]
fn calls_are_requests_with_their_numbers_and_jumps_out_of_them_are_lost() {
    let test = "functions::calls_are_requests_with_their_numbers_and_jumps_out_of_them_are_lost";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let phases = ["request=functions:serve:arg2", "inside=functions:leaves"];
    let done = with(ground.run(), &phases).program(program).words(&["serve", "100"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!(seen.requests.len(), 100);
    for (at, request) in seen.requests.iter().enumerate() {
        let [root, inside] = request.phases.as_slice() else { panic!("{request:#?}") };
        assert_eq!((root.name.stored(), root.request), ("request", 1000 + at as u64));
        assert_eq!(root.ending, Ending::Ended);
        assert_eq!((inside.name.stored(), inside.request), ("inside", 1000 + at as u64));
        let is_left = at % 2 == 1;
        assert_eq!(inside.ending, if is_left { Ending::Lost } else { Ending::Ended }, "{at}");
    }
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 50)]);
    assert_told(&done, "inside", &["100 calls", "50 calls of leaves"]);
    assert_eq!(told(&done, "function", "request").len(), 1, "{}", done.stdout);
}

#[rstest]
#[case::shallow(5, 5)]
#[case::deeper_than_is_followed(80, 32)]
#[case::far_deeper(500, 32)]
fn recursion_nests(#[case] calls: u64, #[case] shown: usize) {
    let test = "functions::recursion_nests";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let start = with(ground.run(), &["deep=functions:deep"]).program(program);
    let done = start.words(&["deep", &calls.to_string()]).finish().expect(0);
    let seen = done.seen();
    assert_eq!(seen.requests.len(), 1);
    let phases = &seen.requests[0].phases;
    assert_eq!(phases.len(), shown);
    for pair in phases.windows(2) {
        assert_eq!(pair[1].parent, Some(pair[0].id));
        assert_eq!(pair[1].ending, Ending::Ended);
    }
    assert_eq!(done.losses(), []);
    assert_told(&done, "deep", &[&format!("{calls} calls")]);
}

#[test]
fn a_tail_call_ends_its_caller() {
    let test = "functions::a_tail_call_ends_its_caller";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let start = with(ground.run(), &["hop=functions:hop", "deep=functions:deep"]).program(program);
    let done = start.words(&["hop", "20"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!((seen.named("hop").len(), seen.named("deep").len(), seen.requests.len()), (20, 20, 40));
    assert_eq!(done.losses(), []);
}

#[test]
fn threads_and_forked_children_have_calls_of_their_own() {
    let test = "functions::threads_and_forked_children_have_calls_of_their_own";
    for (role, count, processes, requests) in [("threads", "0", 1, 100), ("forks", "10", 11, 20)] {
        let Some(ground) = Ground::new(test) else { return };
        let Some(program) = program(&ground, test) else { return };
        let start = with(ground.run(), &["deep=functions:deep"]).program(program);
        let done = start.words(&[role, count]).finish().expect(0);
        let seen = done.seen();
        assert_eq!(seen.requests.len(), requests, "{role}");
        let found: std::collections::BTreeSet<u32> =
            seen.requests.iter().map(|request| request.root().thread.tgid).collect();
        assert_eq!(found.len(), processes, "{role}");
        assert_eq!(done.losses(), [], "{role}");
    }
}

/// Some calls become phases, all are counted, and the source says what share is missing.
#[test]
fn a_function_that_is_called_all_the_time_is_thinned() {
    const CALLS: u64 = 300_000;
    let test = "functions::a_function_that_is_called_all_the_time_is_thinned";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let start = with(ground.run(), &["leaf=functions:leaf"]).program(program);
    let done = start.words(&["hot", &CALLS.to_string()]).finish().expect(0);
    let told = told(&done, "function", "leaf");
    let number = |part: &str| -> u64 {
        let text = told.iter().find(|text| text.contains(part));
        let words = text.map(|text| text.rsplit_once(" calls").map_or(text.as_str(), |(before, _)| before));
        words.and_then(|words| words.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    };
    let (calls, left_out) = (number(" in "), number("more than 10,000 a second"));
    let shown = done.seen().requests.len() as u64;
    let lost: u64 = done.losses().iter().map(|(_, count)| count).sum();
    if done.stderr.contains("taken out") {
        assert!(calls <= CALLS, "{told:#?}");
    } else {
        assert_eq!(calls, CALLS, "{told:#?}");
    }
    // Each lost call loses at most one of its two edges.
    assert!(
        shown + left_out + lost >= calls && shown + left_out <= calls,
        "{shown} {left_out} {lost} {told:#?}"
    );
}

#[test]
fn names_are_those_that_people_write_and_exceptions_lose_what_they_leave() {
    let test = "functions::names_are_those_that_people_write_and_exceptions_lose_what_they_leave";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = compiled(&ground, test, ("functions.cc", "thrower"), &[]) else { return };
    let phases = ["run=thrower:model::Session::run:arg2", "check=thrower:model::*::check"];
    let done = with(ground.run(), &phases).program(program).finish().expect(0);
    let seen = done.seen();
    for (input, request) in seen.requests.iter().enumerate() {
        let [run, check] = request.phases.as_slice() else { panic!("{request:#?}") };
        assert_eq!((run.request, run.ending), (input as u64, Ending::Ended));
        assert_eq!(check.ending, if input % 3 == 0 { Ending::Lost } else { Ending::Ended }, "{input}");
    }
    assert_eq!(seen.requests.len(), 30);
    assert_told(&done, "check", &["model::Session::check in ", "30 calls", "10 calls of"]);
}

/// The error suggests the most similar name, and the program runs all the same.
#[test]
fn a_function_that_is_not_there_names_the_nearest() {
    let test = "functions::a_function_that_is_not_there_names_the_nearest";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let phases = ["a=functions:servee", "b=libnowhere.so:work"];
    let done = with(ground.run(), &phases).program(program).words(&["serve", "3"]).finish().expect(0);
    let nearest = "has no function of that name; nearest: serve";
    assert!(done.stderr.contains(nearest), "{}", done.stderr);
    assert_told(&done, "a", &[nearest]);
    assert_told(&done, "b", &["no program has mapped `libnowhere.so`"]);
}

/// Builds a library whose `work` does a known number of rounds, and which calls itself libwork.so.7.
fn library(ground: &Ground, name: &str) -> PathBuf {
    let source = ground.path("library.c");
    let text =
        "long work(long n) { volatile long s = 0; for (int i = 0; i < 1000; i++) s += n; return s; }\n";
    std::fs::write(&source, text).expect("the folder is ours");
    let path = ground.path(name);
    let compiler = guestscope::child::resolve("cc").expect("the program was compiled");
    let mut command = Command::new(compiler);
    let output = command
        .args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libwork.so.7", "-o"])
        .arg(&path)
        .arg(source)
        .output();
    assert!(output.expect("the compiler runs").status.success());
    path
}

/// A file that replaces another gets probes of its own.
#[test]
fn libraries_are_found_when_they_are_loaded_and_replaced() {
    let test = "functions::libraries_are_found_when_they_are_loaded_and_replaced";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let first = library(&ground, "libwork.so.1");
    let next = library(&ground, "next");
    let gate = ground.path("go");
    let start = with(ground.run(), &["work=libwork.so:work:arg1"]).program(program).words(&["loads", "20"]);
    let start = start.word(&first).word(format!("until:{}", gate.display())).word(&first);
    let run = start.stdout(std::fs::File::create(ground.path("said")).expect("it is ours")).spawn();
    eventually("the first one", || {
        std::fs::read_to_string(ground.path("said")).is_ok_and(|said| said.contains("loaded")).then_some(())
    });
    std::fs::rename(next, &first).expect("the folder is ours");
    std::fs::write(gate, "").expect("the folder is ours");
    let done = run.finish();
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let seen = done.seen();
    let numbers: Vec<u64> = seen.requests.iter().map(|request| request.root().request).collect();
    let twenty: Vec<u64> = (0..20).collect();
    assert_eq!(numbers, [twenty.clone(), twenty].concat());
}

/// A file that is written to may have other code at the probe's place.
#[test]
fn a_library_that_is_overwritten_loses_its_probes() {
    let test = "functions::a_library_that_is_overwritten_loses_its_probes";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let first = library(&ground, "libwork.so");
    let gate = ground.path("go");
    let start = with(ground.run(), &["work=libwork.so:work"]).program(program).words(&["loads", "5"]);
    let start = start.word(&first).word(format!("until:{}", gate.display()));
    let run = start.stdout(std::fs::File::create(ground.path("said")).expect("it is ours")).spawn();
    eventually("the first one", || {
        std::fs::read_to_string(ground.path("said")).is_ok_and(|said| said.contains("loaded")).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_secs(2));
    let bytes = std::fs::read(&first).expect("it is there");
    std::fs::write(&first, bytes).expect("the folder is ours");
    eventually("what is said of it", || run.stderr().contains("has been changed").then_some(()));
    std::fs::write(gate, "").expect("the folder is ours");
    let done = run.finish();
    assert_eq!(done.code(), 0, "{}", done.stderr);
}

/// The library is named by its soname, as `libcuda.so.1` of NVIDIA's would be.
#[test]
fn a_program_that_runs_is_attached_to() {
    let test = "functions::a_program_that_runs_is_attached_to";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let first = library(&ground, "libwork.so.550.1");
    let gate = ground.path("go");
    let start = Start::new(&ground.path(""), &program).words(&["loads", "10"]).word(&first);
    let start = start.word(format!("until:{}", gate.display())).word(&first);
    let subject = start.stdout(std::fs::File::create(ground.path("said")).expect("it is ours")).spawn();
    eventually("the library", || {
        std::fs::read_to_string(ground.path("said")).is_ok_and(|said| said.contains("loaded")).then_some(())
    });
    let pid = subject.pid().to_string();
    let start = ground.command(&["attach", "--json", "--output"]).word(ground.path("runs"));
    let run = with(start.words(&["--pid", &pid]), &["work=libwork.so.7:work"]).spawn();
    eventually("attached", || run.stderr().contains("attached to ").then_some(()));
    std::fs::write(gate, "").expect("the folder is ours");
    let done = run.finish().expect(0);
    assert!(done.seen().named("work").len() >= 10, "{:?}", done.seen().endings());
    assert_eq!(subject.finish().code(), 0);
}

/// Debian's Python has probes: each garbage collection is a phase, with the generation as its number.
#[test]
fn what_lies_between_two_probes_is_a_phase() {
    let test = "functions::what_lies_between_two_probes_is_a_phase";
    let Some(ground) = Ground::new(test) else { return };
    let has_probes = |python: &PathBuf| {
        std::fs::read(python).is_ok_and(|bytes| bytes.windows(9).any(|part| part == b"gc__start"))
    };
    let pythons = [python(test), Some(PathBuf::from("/usr/bin/python3"))].into_iter().flatten();
    let mut pythons = pythons.filter_map(|python| python.canonicalize().ok());
    let Some(python) = pythons.find(has_probes) else {
        return skipped(test, "no Python with USDT probes");
    };
    let phase = format!("gc=usdt:{}:python:gc:arg1", python.display());
    let script = "import gc; gc.disable(); gc.collect(0)\nfor i in range(20): gc.collect(1)";
    let done = with(ground.run(), &[&phase]).program(&python).words(&["-c", script]).finish().expect(0);
    let seen = done.seen();
    let collections = seen.named("gc");
    let young = collections.iter().filter(|request| request.root().request == 1).count();
    assert_eq!(young, 20, "{:?}", seen.endings());
    assert!(collections.iter().all(|request| request.root().ending == Ending::Ended));
}
