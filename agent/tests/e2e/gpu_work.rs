//! What ran on a GPU, by the agent's library inside the program and stubs of CUDA's and CUPTI's libraries:
//! each piece of work is there once, with its time, and belongs to the phase that asked for it. No machine
//! with a device takes part.

use std::{collections::BTreeMap, process::Command};

use guestscope::{
    folder::Folder,
    phase::{GpuWork, GpuWorkKind, Request},
};
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::only_folder,
    ground::{Ground, example, file, python},
    running::{Done, Start},
};

/// What the program `gpu_work.py` asks for in each plain request.
const KERNELS: u64 = 4;
const KERNEL_NS: u64 = 300_000;
const GRAPH_NS: u64 = 200_000;
const COPY_NS: u64 = 150_000;
const BYTES: u64 = 65_536;
/// A window opens and closes within this time, ns.
const EDGE_NS: u64 = 20_000_000;

/// A run of the program with these words, in these windows.
fn traced(test: &str, ground: &Ground, windows: &str, words: &[&str]) -> Option<Start> {
    let python = python(test)?;
    let library = ground.path("libcuda.so.1");
    std::fs::copy(example("libcuda_stub.so"), &library).expect("the place is ours");
    let run = ground.run().words(&["--gpu-trace", windows]).environment("STUB_CUDA", &library);
    let run = run.environment("GUESTSCOPE_CUPTI", example("libcupti_stub.so"));
    let run = run.environment("GUESTSCOPE_NVML", example("libnvidia_ml_stub.so"));
    let run = run.environment("PYTHONDONTWRITEBYTECODE", "1").without("CUDA_INJECTION64_PATH");
    Some(run.program(python).word(file("tests/data/e2e/gpu_work.py")).words(words))
}

fn folder(done: &Done) -> Folder {
    Folder::open(only_folder(&done.folder.join("runs"))).expect("a run folder")
}

fn rows(done: &Done) -> Vec<GpuWork> {
    let rows = folder(done).gpu_work().expect("it can be read").expect("work was recorded");
    rows.map(|row| row.expect("it can be read")).collect()
}

/// The number of the request, and the name of the phase, that a piece of work belongs to.
fn owner<'a>(requests: &'a [Request], work: &GpuWork) -> Option<(u64, &'a str)> {
    let request = requests.iter().find(|request| Some(request.root().id) == work.root)?;
    let phase = request.phases.iter().find(|phase| Some(phase.id) == work.phase)?;
    Some((request.root().request, phase.name.stored()))
}

fn check_plain(done: &Done, requests: u64) {
    let (rows, seen) = (rows(done), done.seen());
    let (windows, work): (Vec<_>, Vec<_>) = rows.into_iter().partition(GpuWork::is_window);
    assert_eq!(windows.iter().map(|window| window.lost).sum::<u64>(), 0, "{windows:?}");
    let mut by_request: BTreeMap<u64, BTreeMap<GpuWorkKind, (u64, u64)>> = BTreeMap::new();
    for one in &work {
        let (number, phase) = owner(&seen.requests, one).unwrap_or_else(|| panic!("{one:?}"));
        assert_eq!(phase, if one.kind == GpuWorkKind::Copy { "copy" } else { "inference" }, "{one:?}");
        let (count, ns) = by_request.entry(number).or_default().entry(one.kind).or_default();
        (*count, *ns) = (*count + 1, *ns + one.duration_ns());
        match one.kind {
            GpuWorkKind::Kernel => assert_eq!(one.name.stored(), format!("step<{number}>")),
            GpuWorkKind::Copy => assert_eq!((one.name.stored(), one.bytes), ("host to device", BYTES)),
            GpuWorkKind::Set | GpuWorkKind::Graph | GpuWorkKind::Window => {}
        }
        assert!(one.called_ns <= one.returned_ns && one.called_ns < one.start_ns, "{one:?}");
    }
    let expected: BTreeMap<_, _> = [
        (GpuWorkKind::Kernel, (KERNELS, KERNELS * KERNEL_NS)),
        (GpuWorkKind::Copy, (1, COPY_NS)),
        (GpuWorkKind::Graph, (1, GRAPH_NS)),
    ]
    .into();
    assert_eq!(by_request.len() as u64, requests);
    for (number, kinds) in by_request {
        assert_eq!(kinds, expected, "request {number}");
    }
}

#[rstest]
#[case::plain("plain")]
#[case::beside_a_child_that_exits("fork")]
fn each_piece_of_work_belongs_to_the_phase_that_asked_for_it(#[case] kind: &str) {
    let test = "gpu_work::each_piece_of_work_belongs_to_the_phase_that_asked_for_it";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &[kind, "40"]) else { return };
    let done = run.finish().expect(0);
    check_plain(&done, 40);
    let told = &done.summary()["gpu_work"];
    let request = &told["phases"][0];
    assert_eq!((&request["name"], &request["kind"]), (&"plain".into(), &"request".into()), "{told}");
    // The last ones may lie behind the last flush, whose window ends with the program.
    let count = request["count"].as_u64().expect("a number");
    assert!((38..=40).contains(&count), "{told}");
    assert_eq!(request["kernels"], (KERNELS + 1) * count, "{told}");
    let busy_ns = KERNELS * KERNEL_NS + GRAPH_NS + COPY_NS;
    assert_eq!(request["busy_ns"], busy_ns * count, "{told}");
    assert_eq!(request["kernels_ns"], (busy_ns - COPY_NS) * count, "{told}");
    assert_eq!((&request["copied_bytes"], &told["lost"]), (&(BYTES * count).into(), &0.into()), "{told}");
    let longest = told["kernels"][0]["sum_ns"].as_u64();
    assert_eq!(longest, Some(KERNELS * KERNEL_NS), "{told}");
    assert_eq!(done.summary()["gpu"]["trace"]["asked"], "always");
    assert!(done.stderr.contains("work of GPUs is recorded by"), "{}", done.stderr);
    // The same afterwards.
    let explained = ground.command(&["explain", "--json"]).word(folder(&done).path()).finish();
    assert_eq!(explained.code(), 0, "{}", explained.stderr);
}

/// Requests take turns on one thread: what each launched is its own.
#[test]
fn work_of_tasks_that_take_turns_is_their_own() {
    let test = "gpu_work::work_of_tasks_that_take_turns_is_their_own";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &["tasks", "40"]) else { return };
    let done = run.finish().expect(0);
    let (rows, seen) = (rows(&done), done.seen());
    let work: Vec<_> = rows.iter().filter(|row| !row.is_window()).collect();
    assert_eq!(work.len(), 80);
    for one in work {
        let (number, phase) = owner(&seen.requests, one).unwrap_or_else(|| panic!("{one:?}"));
        assert_eq!(one.name.stored(), format!("{phase}_{number}"));
    }
}

/// Windows that open and close: only what they hold is recorded, and requests across an edge are not counted.
#[test]
fn only_windows_are_recorded() {
    let test = "gpu_work::only_windows_are_recorded";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "100ms/400ms", &["plain", "400"]) else { return };
    let done = run.finish().expect(0);
    let rows = rows(&done);
    let windows: Vec<_> = rows.iter().filter(|row| row.is_window()).collect();
    assert!(windows.len() >= 3, "{windows:?}");
    // What was asked for while a window opened or closed may lie at its edge.
    let near = |work: &GpuWork, window: &GpuWork| {
        window.start_ns <= work.end_ns + EDGE_NS && work.called_ns <= window.end_ns + EDGE_NS
    };
    for work in rows.iter().filter(|row| !row.is_window()) {
        assert!(windows.iter().any(|window| near(work, window)), "{work:?} {windows:?}");
    }
    let told = &done.summary()["gpu_work"];
    let request = &told["phases"][0];
    let count = request["count"].as_u64().expect("a number");
    assert!(0 < count && count < 300, "{told}");
    assert_eq!(request["kernels"], (KERNELS + 1) * count, "{told}");
}

#[rstest]
#[case::privileges("refuse:35", "NVreg_RestrictProfilingToAdminUsers")]
#[case::mig("refuse:43", "not on a MIG device")]
#[case::confidential("refuse:41", "not in confidential mode")]
#[case::another_profiler("taken", "another profiler uses it")]
fn what_cupti_refuses_is_told_and_the_program_goes_on(#[case] stub: &str, #[case] why: &str) {
    let test = "gpu_work::what_cupti_refuses_is_told_and_the_program_goes_on";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &["plain", "20"]) else { return };
    let done = run.environment("STUB_CUPTI", stub).finish().expect(0);
    assert!(done.stderr.contains(why), "{}", done.stderr);
    let summary = done.summary();
    assert_eq!((&summary["requests"], &summary["gpu_work"]), (&20.into(), &Value::Null));
    assert!(summary["gpu"]["trace"]["troubles"][0].as_str().is_some_and(|told| told.contains(why)));
    assert_eq!(done.losses(), []);
}

/// A CUPTI that hangs costs its records, and half a second at the program's exit.
#[test]
fn a_cupti_that_hangs_costs_its_records_only() {
    let test = "gpu_work::a_cupti_that_hangs_costs_its_records_only";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &["plain", "60"]) else { return };
    let done = run.environment("STUB_CUPTI", "hang").finish().expect(0);
    assert_eq!((&done.summary()["requests"], done.losses()), (&60.into(), vec![]));
}

#[test]
fn what_cupti_drops_is_counted() {
    let test = "gpu_work::what_cupti_drops_is_counted";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &["plain", "300"]) else { return };
    let done = run.environment("STUB_CUPTI", "drop").finish().expect(0);
    let told = &done.summary()["gpu_work"];
    // Six pieces of work in each request, and as many calls.
    let (lost, pieces) = (told["lost"].as_u64().unwrap(), told["pieces"].as_u64().unwrap());
    assert!(pieces > 0 && lost >= 300 * 6 - pieces, "{told}");
}

#[test]
fn a_program_without_cupti_is_told() {
    let test = "gpu_work::a_program_without_cupti_is_told";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "200ms/10s", &["plain", "20"]) else { return };
    let done = run.environment("GUESTSCOPE_CUPTI", "/no/such/file").finish().expect(0);
    assert!(done.stderr.contains("no CUPTI was found"), "{}", done.stderr);
    let Some(run) = traced(test, &ground, "200ms/10s", &["plain", "20"]) else { return };
    let done = run.environment("CUDA_INJECTION64_PATH", "/opt/other/tool.so").finish().expect(0);
    assert!(done.stderr.contains("another tool holds the injection"), "{}", done.stderr);
}

/// What took the time of requests is said where it holds, and nothing else.
#[rstest]
#[case::busy("busy", Some("gpu.busy: the GPU worked for"))]
#[case::copying("copying", Some("gpu.copy: copies took"))]
#[case::launching("launching", None)]
fn what_the_gpu_did_for_most_of_the_time_is_said(#[case] kind: &str, #[case] said: Option<&str>) {
    let test = "gpu_work::what_the_gpu_did_for_most_of_the_time_is_said";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &[kind, "600"]) else { return };
    // Less than the record says: the device's own samples must not hide it.
    let done = run.environment("GUESTSCOPE_NVML_STUB", "idle").finish().expect(0);
    let explained = ground.command(&["explain"]).word(folder(&done).path()).finish().expect(0).stdout;
    for sentence in ["gpu.busy: the GPU worked for", "gpu.copy: copies took"] {
        assert_eq!(explained.contains(sentence), said == Some(sentence), "{explained}");
    }
    assert_eq!(explained.contains("launch-bound: the GPU was busy for"), kind == "launching", "{explained}");
}

/// A trace of Perfetto has a track for the stream, and an arrow from each call.
#[test]
fn a_trace_of_perfetto_has_the_work() {
    let test = "gpu_work::a_trace_of_perfetto_has_the_work";
    let Some(ground) = Ground::new(test) else { return };
    let Some(run) = traced(test, &ground, "always", &["plain", "20"]) else { return };
    let done = run.finish().expect(0);
    let output = ground.path("trace");
    let mut export = Command::new(ground.agent());
    export.args(["export", "--to", "perfetto", "--output"]).arg(&output).arg(folder(&done).path());
    assert!(export.status().expect("it starts").success());
    let bytes = std::fs::read(output).expect("it was written");
    let count = |word: &str| bytes.windows(word.len()).filter(|part| *part == word.as_bytes()).count();
    assert_eq!((count("GPU 0, stream 7"), count("launch step<1>")), (1, KERNELS as usize));
    assert_eq!(count("copy host to device"), 40);
}
