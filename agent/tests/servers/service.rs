//! FastAPI on uvicorn: requests of four clients, with the libraries that each uses.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    path::PathBuf,
};

use guestscope::phase::{Phase, PhaseKind, Request};
use guestscope_contract::{Account, Source};
use rstest::rstest;

use crate::{
    client::{self, Answered},
    folder::{Seen, phase},
    ground::{Ground, eventually, file, skipped, variable},
    running::Done,
};

/// Share of a request inside the phases of its model's library, by CPU time, since waiting for a CPU depends
/// on the machine.
const COVERED: f64 = 0.95;
const CLIENTS: u64 = 4;

/// The interpreter that has the packages.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let found = variable("GUESTSCOPE_SERVERS_PYTHON").map(PathBuf::from);
    if found.is_none() {
        skipped(test, "GUESTSCOPE_SERVERS_PYTHON is not set");
    }
    found
}

/// A server of this kind that got this many requests.
fn served(test: &str, kind: &str, requests: u64) -> Option<(Ground, Done, Vec<Answered>)> {
    let (ground, python) = (Ground::new(test)?, python(test)?);
    let note = ground.path("note");
    let start = ground.run().program(python).word(file("tests/data/servers/service.py")).word(kind);
    let running = start.word(&note).environment("PYTHONDONTWRITEBYTECODE", "1").spawn();
    let port = eventually("the server listens", || std::fs::read_to_string(&note).ok()?.parse().ok());
    let answered = client::ask(port, CLIENTS, requests);
    std::fs::write(ground.path("note.stop"), "").expect("the folder is ours");
    Some((ground, running.finish().expect(0), answered))
}

fn cpu(phase: &Phase) -> u64 {
    phase.accounts.0[Account::Cpu as usize]
}

/// Each request of the client is one of the agent's, and mostly not longer than the client measured: the
/// thread that sent the answer may lose its CPU before the end of the request.
fn pair<'a>(seen: &'a Seen, answered: &[Answered]) -> Vec<&'a Request> {
    let requests = seen.named("GET /predict/{number}");
    let by_trace: HashMap<u128, &Request> = requests
        .iter()
        .map(|request| (u128::from_be_bytes(request.root().trace.trace_id), *request))
        .collect();
    assert_eq!((requests.len(), by_trace.len()), (answered.len(), answered.len()));
    let mut longer = 0;
    for one in answered {
        let root = by_trace[&u128::from(one.number)].root();
        assert_eq!(root.trace.parent_span_id, Some(one.number.to_be_bytes()));
        assert_eq!((root.source, root.status), (Source::Python, Some(200)));
        longer += usize::from(root.duration_ns > one.duration_ns);
    }
    assert!(
        longer <= answered.len() / 2,
        "{longer} of {} took longer than their clients saw",
        answered.len()
    );
    requests
}

/// Names of the direct children of a phase, in the order of their starts. Some requests begin with a queue.
fn names(request: &Request, around: u64) -> Vec<&str> {
    let is_within = |phase: &&Phase| phase.parent == Some(around) && phase.kind != PhaseKind::Queue;
    let within = request.phases.iter().filter(is_within);
    within.map(|phase| phase.name.stored()).collect()
}

#[rstest]
#[case::torch_in_a_pool_of_threads("torch", &["forward ResNet"])]
#[case::torch_in_the_event_loop("torch-async", &["forward ResNet"])]
#[case::onnxruntime("onnx", &["run note.onnx"])]
#[case::scikit_learn("sklearn", &["predict RandomForestClassifier"])]
#[case::transformers("generate", &["generate"])]
fn each_request_of_four_clients_is_one_with_its_phases(#[case] kind: &str, #[case] phases: &[&str]) {
    let test = format!("service::{kind}");
    let Some((_ground, done, answered)) = served(&test, kind, 100) else { return };
    let seen = done.seen();
    let requests = pair(&seen, &answered);
    assert_eq!(done.losses(), []);
    let (mut inside, mut all) = (0, 0);
    for request in requests {
        assert_eq!(names(request, request.root().id), ["predict"]);
        assert_eq!(names(request, phase(request, "predict").id), phases);
        let work = request.phases.iter().filter(|phase| phase.parent == Some(request.root().id));
        inside += work.map(cpu).sum::<u64>();
        all += cpu(request.root());
    }
    let covered = inside as f64 / all as f64;
    assert!(covered >= COVERED, "phases cover {covered:.3} of {all} ns on a CPU");
}

#[test]
fn generate_has_one_prefill_and_a_decode_for_each_further_token() {
    let test = "service::generate_has_one_prefill_and_a_decode_for_each_further_token";
    let Some((_ground, done, answered)) = served(test, "generate-async", 8) else { return };
    let seen = done.seen();
    for request in pair(&seen, &answered) {
        let generate = request.phases.iter().find(|phase| phase.name.stored() == "generate");
        let generate = generate.expect("it is there").id;
        let within = request.phases.iter().filter(|phase| phase.parent == Some(generate));
        let names: Vec<&str> = within.map(|phase| phase.name.stored()).collect();
        assert_eq!(names, [&["prefill"][..], &["decode"; 7]].concat());
    }
}

#[rstest]
#[case::in_a_pool_of_threads("spans")]
#[case::in_the_event_loop("spans-async")]
fn phases_are_below_the_programs_own_spans(#[case] kind: &str) {
    let test = format!("service::phases_are_below_the_programs_own_spans, {kind}");
    let Some((ground, done, answered)) = served(&test, kind, 20) else { return };
    let seen = done.seen();
    let requests = pair(&seen, &answered);
    let lines = std::fs::read_to_string(ground.path("note.spans")).expect("the program wrote its spans");
    // Trace, span, parent and name of each span: the program's own, and those that FastAPI makes if
    // OpenTelemetry is installed.
    let spans: BTreeSet<[&str; 3]> = lines
        .lines()
        .filter_map(|line| {
            let (ids, name) = line.split_at_checked(67)?;
            Some([&ids[..32], &ids[33..49], name.trim_start()])
        })
        .collect();
    let ids = |phase: &Phase| (hex(&phase.trace.trace_id), phase.trace.parent_span_id.map(|id| hex(&id)));
    for request in requests {
        let otel: Vec<&Phase> = request.phases.iter().filter(|phase| phase.source == Source::Otel).collect();
        let trace = hex(&request.root().trace.trace_id);
        let of_request = spans.iter().filter(|[of, ..]| *of == trace);
        let found: BTreeSet<(String, Option<String>, &str)> = otel
            .iter()
            .filter(|phase| phase.trace.parent_is_remote)
            .map(|phase| (ids(phase).0, ids(phase).1, phase.name.stored()))
            .collect();
        let expected: BTreeSet<(String, Option<String>, &str)> = of_request
            .map(|[trace, span, name]| ((*trace).to_owned(), Some((*span).to_owned()), *name))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(otel.len(), expected.len());
        let (handle, infer) = (phase(request, "handle"), phase(request, "infer"));
        let forward = phase(request, "forward ResNet");
        assert_eq!((infer.parent, forward.parent), (Some(handle.id), Some(infer.id)));
        assert!(!forward.trace.parent_is_remote && cpu(forward) > 0, "{forward:?}");
    }
}

fn hex(id: &[u8]) -> String {
    let mut text = String::new();
    for byte in id {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
