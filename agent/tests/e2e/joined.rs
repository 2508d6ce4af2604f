//! Training by three processes, each under its own agent: the parameter server's work for a step of a worker
//! is in the trace of that step, below the phase that asked for it. Checked in the three folders, which do
//! not refer to each other, and in the exported lines.

use std::{collections::HashMap, path::Path};

use guestscope::phase::{Phase, Request};
use serde_json::Value;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, skipped, variable},
    main_job::hex,
    running::{Done, Running},
};

const WORKERS: usize = 2;
const STEPS: usize = 3;
const WARMUPS: usize = 1;
const NAME: &str = "joined::a_step_goes_on_inside_the_parameter_server";

#[test]
fn a_step_goes_on_inside_the_parameter_server() {
    let Some(workloads) = variable("GUESTSCOPE_WORKLOADS_BIN") else {
        return skipped(NAME, "GUESTSCOPE_WORKLOADS_BIN is not set");
    };
    // A folder for each, as if each process ran in its own guest.
    let grounds: Vec<Ground> = (0..=WORKERS).filter_map(|_| Ground::new(NAME)).collect();
    if grounds.len() <= WORKERS {
        return;
    }
    let start = |place: usize, name: &str, words: &[&str]| -> Running {
        let common = ["train", "mnist", "--threads", "1", "--seed", "3", "--json"];
        let observed = grounds[place].run().words(&["--name", name]).program(&workloads);
        observed.words(&common).words(words).spawn()
    };
    let listen = ["--role", "ps", "--workers", "2", "--listen", "127.0.0.1:0"];
    let server = start(WORKERS, "server", &listen);
    let address = eventually("where the server listens", || {
        let said = server.stderr();
        said.lines().find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
    });
    let workers: Vec<Running> = (0..WORKERS)
        .map(|rank| {
            let rank_word = rank.to_string();
            let words = ["--role", "worker", "--server", &address, "--rank", &rank_word];
            let sizes = ["--batch", "4", "--steps", "3", "--warmup", "1"];
            start(rank, "worker", &[&words[..], &sizes].concat())
        })
        .collect();
    let workers: Vec<Seen> = workers.into_iter().map(|worker| worker.finish().expect(0).seen()).collect();
    let server = server.finish().expect(0);
    check_description(&server);
    let server = server.seen();
    check_folders(&workers, &server);
    check_lines(&grounds, &workers, &server);
}

/// Its manifest has the same work hash as the line that it prints.
fn check_description(server: &Done) {
    let line = server.stdout.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = line.unwrap_or_else(|| panic!("no line of JSON: {}", server.stdout));
    let manifest = server.seen().manifest;
    let workload = manifest.workload.expect("the server describes itself");
    for key in ["name", "work_hash", "output_hash", "parameters_hash"] {
        assert!(line[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {line}");
        assert_eq!(workload.get(key), line.get(key), "{key}");
    }
    assert_eq!((&workload["batch"], &workload["steps"]), (&4.into(), &(STEPS + WARMUPS).into()));
}

/// The phases of all steps, warm-up included, by trace and span.
fn askers(workers: &[Seen]) -> HashMap<([u8; 16], [u8; 8]), &Phase> {
    let requests = workers.iter().flat_map(|worker| &worker.requests);
    let phases = requests.flat_map(|request| &request.phases[1..]);
    phases.map(|phase| ((phase.trace.trace_id, phase.trace.span_id), phase)).collect()
}

fn check_folders(workers: &[Seen], server: &Seen) {
    for worker in workers {
        assert_eq!((worker.named("step").len(), worker.named("warmup").len()), (STEPS, WARMUPS));
        for request in &worker.requests {
            let names: Vec<&str> = request.phases[1..].iter().map(|phase| phase.name.stored()).collect();
            assert_eq!(names, ["pull", "data", "forward", "backward", "push"]);
        }
    }
    let askers = askers(workers);
    for (name, inner) in [("pull", &["wait", "copy", "send"][..]), ("push", &["receive", "optimizer"])] {
        let mut asked: HashMap<([u8; 16], [u8; 8]), u32> = HashMap::new();
        for request in server.named(name) {
            let root = request.root();
            let Some(parent) = root.trace.parent_span_id else {
                // The last pull of a worker belongs to no step.
                assert_eq!(name, "pull", "{root:?}");
                continue;
            };
            let asker = askers.get(&(root.trace.trace_id, parent));
            let asker = asker.unwrap_or_else(|| panic!("nobody asked for {root:?}"));
            assert_eq!(asker.name.stored(), name);
            // Both agents take their times from the clock of this machine.
            let asker_end_ns = asker.start_ns + asker.duration_ns;
            assert!(asker.start_ns <= root.start_ns && root.start_ns <= asker_end_ns, "{root:?} {asker:?}");
            *asked.entry((root.trace.trace_id, parent)).or_default() += 1;
            check_inner(request, inner);
        }
        assert_eq!(asked.len(), WORKERS * (STEPS + WARMUPS), "{name}");
        assert!(asked.values().all(|count| *count == 1), "{name}: {asked:?}");
    }
    let ends = server.named("pull").len() - WORKERS * (STEPS + WARMUPS);
    assert_eq!(ends, WORKERS, "each worker pulls once more at its end");
}

fn check_inner(request: &Request, expected: &[&str]) {
    let names: Vec<&str> = request.phases[1..].iter().map(|phase| phase.name.stored()).collect();
    assert_eq!(names, expected);
    assert!(request.phases[1..].iter().all(|phase| phase.parent == Some(request.root().id)));
}

/// Checks the joined traces in exported spans: a backend joins them only by these ids.
fn check_lines(grounds: &[Ground], workers: &[Seen], server: &Seen) {
    let spans = |ground: &Ground, seen: &Seen| exported(ground, &seen.path);
    let of_workers: Vec<Value> =
        workers.iter().zip(grounds).flat_map(|(seen, ground)| spans(ground, seen)).collect();
    let of_server = spans(&grounds[WORKERS], server);
    let id = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().to_owned();
    let by_id: HashMap<(String, String), &Value> =
        of_workers.iter().map(|span| ((id(span, "traceId"), id(span, "spanId")), span)).collect();
    let mut joined = 0;
    for span in &of_server {
        let parent = (id(span, "traceId"), id(span, "parentSpanId"));
        if let Some(asker) = by_id.get(&parent) {
            assert_eq!(asker["name"], span["name"]);
            joined += 1;
        }
    }
    assert_eq!(joined, 2 * WORKERS * (STEPS + WARMUPS));
    // `pull` and `push` of a step, and their five phases, are below the root of that step.
    let step = workers[0].named("step")[0].root();
    let in_trace = |span: &&Value| id(span, "traceId") == hex(&step.trace.trace_id);
    let names: Vec<&str> =
        of_server.iter().filter(in_trace).filter_map(|span| span["name"].as_str()).collect();
    for name in ["pull", "wait", "copy", "send", "push", "receive", "optimizer"] {
        assert_eq!(names.iter().filter(|found| **found == name).count(), 1, "{name}: {names:?}");
    }
}

/// The spans that `export` writes for a folder.
fn exported(ground: &Ground, folder: &Path) -> Vec<Value> {
    let export = ground.command(&["export", "--to", "otlp-json"]).word(folder).finish().expect(0);
    let text = export.stdout;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    lines
        .flat_map(|line| list(&line, "resourceSpans"))
        .flat_map(|resource| list(&resource, "scopeSpans"))
        .flat_map(|scope| list(&scope, "spans"))
        .collect()
}
