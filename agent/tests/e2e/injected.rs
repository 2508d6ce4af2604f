//! NVTX ranges and ITT tasks of unmodified programs: of a C program that passes tables of functions as the
//! headers do, and of the real packages where they are installed.

use std::{path::PathBuf, process::Command};

use guestscope::{phase::Request, sources::Kind};
use rstest::rstest;
use serde_json::Value;

use crate::{
    ground::{Ground, file, python, skipped, variable},
    running::Done,
};

/// The marker's C program, compiled; none, with a note on stdout, without a compiler.
fn program(ground: &Ground, test: &str) -> Option<PathBuf> {
    let to = ground.path("injected");
    let mut compiler = Command::new("cc");
    compiler
        .arg(file("marker/tests/programs/injected.c"))
        .args(["-rdynamic", "-ldl", "-lpthread", "-o"])
        .arg(&to);
    let Ok(status) = compiler.status() else {
        skipped(test, "no C compiler");
        return None;
    };
    assert!(status.success(), "it compiles");
    Some(to)
}

/// Source, name and number of each phase, the outermost first.
fn listed(request: &Request) -> Vec<String> {
    let one = |phase: &guestscope::phase::Phase| {
        format!("{} {} {}", phase.source.name(), phase.name.stored(), phase.request)
    };
    request.phases.iter().map(one).collect()
}

fn source(done: &Done, kind: Kind) -> Value {
    let summary = done.summary();
    let all = summary["sources"].as_array().expect("a list");
    all.iter().find(|one| one["source"] == kind.name()).unwrap_or_else(|| panic!("{kind:?}: {all:?}")).clone()
}

#[rstest]
#[case::with_bpf("full")]
#[case::without("procfs")]
fn ranges_and_tasks_are_phases_of_the_request_around_them(#[case] fidelity: &str) {
    let test = format!("injected::ranges_and_tasks_are_phases_of_the_request_around_them::{fidelity}");
    let Some(ground) = Ground::new(&test) else { return };
    let Some(program) = program(&ground, &test) else { return };
    let words = ["--fidelity", fidelity, "--sources", "nvtx,itt"];
    let run = ground.run().words(&words).program(program).word("within");
    let done = run.finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let requests = seen.named("handle");
    assert_eq!(requests.len(), 12);
    for (at, request) in requests.iter().enumerate() {
        let number = at + 1;
        let mut expected = vec![
            format!("marker handle {number}"),
            "nvtx data/load 42".to_owned(),
            format!("nvtx forward {number}"),
            format!("itt layer {number}"),
        ];
        // Short tasks are hidden until eight were long enough; four of those ran on the worker.
        if number > 4 {
            expected.push(format!("itt oneDNN/convolution {number}"));
        }
        assert_eq!(listed(request), expected);
    }
    assert_eq!(listed(seen.only("alone")), ["nvtx alone 9"]);
    assert_eq!(seen.requests.len(), 13, "what a library's thread does alone is no request");
    let (nvtx, itt) = (source(&done, Kind::Nvtx), source(&done, Kind::Itt));
    assert_eq!(
        (&nvtx["requests"], &nvtx["phases"], &nvtx["found"][0]),
        (&1.into(), &24.into(), &"NVTX 3".into())
    );
    assert_eq!((&itt["requests"], &itt["phases"], &itt["left_out"]), (&0.into(), &20.into(), &8.into()));
}

#[test]
fn another_tool_keeps_its_variable_and_what_is_not_asked_for_sets_none() {
    let test = "injected::another_tool_keeps_its_variable_and_what_is_not_asked_for_sets_none";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = program(&ground, test) else { return };
    let run = ground
        .run()
        .words(&["--sources", "nvtx,itt"])
        .program(&program)
        .word("variables")
        .environment("NVTX_INJECTION64_PATH", "/opt/nsight.so");
    let done = run.finish().expect(0);
    assert_eq!(done.stdout.lines().next(), Some("/opt/nsight.so itt"));
    let off = source(&done, Kind::Nvtx)["off"].clone();
    assert!(off.as_str().is_some_and(|why| why.starts_with("another tool holds the injection")), "{off}");
    let other = Ground::with(ground.agent().to_owned());
    let run = other.run().words(&["--sources", "none"]).program(&program).word("variables");
    assert_eq!(run.without("NVTX_INJECTION64_PATH").finish().expect(0).stdout.lines().next(), Some("- -"));
}

/// A Python with this package; none, with a note on stdout, if there is none.
pub(crate) fn python_with(package: &str, test: &str) -> Option<PathBuf> {
    let given = ["GUESTSCOPE_SERVERS_PYTHON", "GUESTSCOPE_WEB_PYTHON"].into_iter().filter_map(variable);
    let has_it = |found: &PathBuf| {
        let imported = Command::new(found).args(["-c", &format!("import {package}")]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    let found = given.map(PathBuf::from).chain(python(test)).find(has_it);
    if found.is_none() {
        let hint = "name a Python with it by GUESTSCOPE_SERVERS_PYTHON";
        skipped("packages", &format!("{test}: no package {package}: {hint}"));
    }
    found
}

#[test]
fn ranges_of_the_package_nvtx_are_phases() {
    let test = "injected::ranges_of_the_package_nvtx_are_phases";
    let (Some(ground), Some(python)) = (Ground::new(test), python_with("nvtx", test)) else { return };
    let run = ground.run().program(python).word(file("tests/data/e2e/python_nvtx.py"));
    let done = run.finish().expect(0);
    assert_eq!(done.losses(), []);
    assert_eq!(done.stdout.lines().next(), Some("None None None"), "as without a tool");
    let seen = done.seen();
    let requests: Vec<Vec<String>> = seen.named("request").into_iter().map(listed).collect();
    let expected = |number| vec![format!("nvtx request {number}"), format!("nvtx data/decode {number}")];
    assert_eq!(requests, (1..6).map(expected).collect::<Vec<_>>());
    let crossing: Vec<_> = seen.requests.iter().flat_map(|request| &request.phases).collect();
    assert_eq!(crossing.iter().filter(|phase| phase.name.stored() == "crossing").count(), 2);
}

#[test]
fn ranges_of_torch_and_primitives_of_onednn_are_phases() {
    let test = "injected::ranges_of_torch_and_primitives_of_onednn_are_phases";
    let (Some(ground), Some(python)) = (Ground::new(test), python_with("torch", test)) else { return };
    let run =
        ground.run().words(&["--sources", "itt"]).program(python).word(file("tests/data/e2e/python_itt.py"));
    let done = run.finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let steps = seen.named("step");
    assert_eq!((steps.len(), seen.requests.len()), (40, 40), "the pool's threads make no requests");
    let with_a_convolution = steps
        .iter()
        .filter(|step| step.phases.iter().any(|phase| phase.name.stored() == "oneDNN/convolution"));
    // Until eight of a kind have been long enough, on any thread, they are hidden.
    assert!(with_a_convolution.count() >= 30, "{:?}", steps.last().map(|step| listed(step)));
}
