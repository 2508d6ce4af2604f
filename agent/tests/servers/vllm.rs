//! vLLM's own OpenAI server, unmodified, with a tiny model: each request of its clients is one request, with
//! the engine's work for it in the same trace. GUESTSCOPE_VLLM_PYTHON names an interpreter that has vLLM.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use guestscope::{
    clock,
    phase::{PhaseKind, Request},
};
use guestscope_contract::Source;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    folder::{Seen, phase},
    ground::{Ground, file, skipped, variable},
    running::{Running, Start},
};

/// Limit for its start: it compiles its model.
const UP: Duration = Duration::from_mins(8);
const CLIENTS: u64 = 4;
const REQUESTS: u64 = 60;
const FAULT: &str = "sleep";
const FAULT_MS: &str = "150";
/// Requests of one client after the other, so that batches are the same each time.
const COMPARED: std::ops::RangeInclusive<u64> = 1_001..=1_009;
const NAME: &str = "POST /v1/completions";

/// A client's view of a request.
struct Answer {
    begin_ns: u64,
    duration_ns: u64,
    text: String,
}

/// The interpreter and a model.
fn prepared(test: &str, ground: &Ground) -> Option<PathBuf> {
    let Some(python) = variable("GUESTSCOPE_VLLM_PYTHON").map(PathBuf::from) else {
        skipped("packages", &format!("{test}: GUESTSCOPE_VLLM_PYTHON is not set"));
        return None;
    };
    let mut make = Command::new(&python);
    make.arg(file("tests/data/servers/vllm_model.py")).arg(ground.path("tiny"));
    let made = make.output().expect("the interpreter runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(python)
}

fn served(start: Start, ground: &Ground) -> (Running, u16) {
    let port = free_port();
    let start = start.words(&["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1"]);
    let start = start.word("--port").word(port.to_string()).word("--model").word(ground.path("tiny"));
    let start = start.words(&["--served-model-name", "tiny", "--max-model-len", "512", "--dtype", "float32"]);
    let start = start.words(&["--middleware", "vllm_slow.Slow"]);
    let start = start.environment("PYTHONPATH", file("tests/data/servers"));
    let start = start.environment("FAULT", FAULT).environment("FAULT_MS", FAULT_MS);
    let start = start.environment("VLLM_CPU_KVCACHE_SPACE", "1").environment("HF_HUB_OFFLINE", "1");
    let start = start.environment("VLLM_NO_USAGE_STATS", "1").environment("PYTHONDONTWRITEBYTECODE", "1");
    let running = start.spawn();
    let end = Instant::now() + UP;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "the server never listened:\n{}", running.stderr());
        thread::sleep(Duration::from_millis(100));
    }
    (running, port)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback interface");
    listener.local_addr().expect("it is bound").port()
}

/// Shares these requests among clients, each of which waits for an answer before its next request.
fn ask(port: u16, clients: u64, numbers: std::ops::RangeInclusive<u64>) -> BTreeMap<u64, Answer> {
    let (next, answers) = (AtomicU64::new(*numbers.start()), Mutex::new(BTreeMap::new()));
    let one = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout can be set");
        stream.set_nodelay(true).expect("it is TCP");
        loop {
            let number = next.fetch_add(1, Relaxed);
            if !numbers.contains(&number) {
                return;
            }
            let begin_ns = clock::now_ns();
            let answer = exchange(&mut stream, number);
            let duration_ns = clock::now_ns() - begin_ns;
            let answer = Answer { begin_ns, duration_ns, text: text(&answer) };
            answers.lock().expect("no client fails").insert(number, answer);
        }
    };
    thread::scope(|scope| (0..clients).for_each(|_| drop(scope.spawn(one))));
    answers.into_inner().expect("no client fails")
}

/// Every second answer is a stream.
fn exchange(stream: &mut TcpStream, number: u64) -> String {
    let body = json!({
        "model": "tiny", "prompt": format!("the quick brown {number}"), "max_tokens": 8, "temperature": 0,
        "seed": 1, "ignore_eos": true, "return_token_ids": true, "stream": number.is_multiple_of(2),
    });
    let body = body.to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\ntraceparent: 00-{number:032x}-{number:016x}-01\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("the server reads");
    let (mut answer, mut part) = (Vec::new(), [0; 8192]);
    while !is_whole(&answer) {
        let read = stream.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server hung up: {}", String::from_utf8_lossy(&answer));
        answer.extend(&part[..read]);
    }
    let answer = String::from_utf8(answer).expect("it answers in UTF-8");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let lengths = head.lines().filter_map(|line| line.split_once(": "));
    let length = lengths.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    match length {
        Some((_, length)) => body.len() >= length.parse::<usize>().expect("a length is a number"),
        None => body.ends_with("\r\n0\r\n\r\n"),
    }
}

/// The model's text, whole or as a stream, with its tokens: those of a random model may give no text.
fn text(answer: &str) -> String {
    let parts = answer.lines().filter_map(|line| {
        let part: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok()?;
        let choice = &part["choices"][0];
        Some(format!("{}{}", choice["text"].as_str()?, choice["token_ids"]))
    });
    parts.collect()
}

fn trace(request: &Request) -> u128 {
    u128::from_be_bytes(request.root().trace.trace_id)
}

#[test]
fn each_request_is_one_with_what_the_engine_did_for_it() {
    let test = "vllm::each_request_is_one_with_what_the_engine_did_for_it";
    let Some(ground) = Ground::new(test) else { return };
    let Some(python) = prepared(test, &ground) else { return };
    let (plain, port) = served(Start::new(&ground.path(""), &python), &ground);
    let expected = ask(port, 1, COMPARED);
    plain.signal(Signal::SIGTERM);
    plain.finish();

    let (running, port) = served(ground.run().program(&python), &ground);
    let answers = ask(port, CLIENTS, 1..=REQUESTS);
    let compared = ask(port, 1, COMPARED);
    running.signal(Signal::SIGTERM);
    let done = running.finish();
    assert_eq!(done.losses(), []);
    let said = |answers: &BTreeMap<u64, Answer>| -> Vec<String> {
        answers.values().map(|answer| answer.text.clone()).collect()
    };
    assert_eq!(said(&compared), said(&expected));
    assert!(said(&answers).iter().all(|text| text.contains('[')));
    let summary = done.summary();
    let of_python =
        summary["sources"].as_array().and_then(|all| all.iter().find(|one| one["source"] == "python"));
    let of_python = of_python.expect("it is on");
    assert_eq!(of_python["missed"], json!([]));
    let found = of_python["found"].as_array().expect("it is a list");
    assert!(found.iter().any(|one| one.as_str().is_some_and(|one| one.starts_with("vllm "))), "{found:?}");

    let seen = done.seen();
    let asked: HashMap<u128, &Request> = seen.named(NAME).into_iter().map(|one| (trace(one), one)).collect();
    assert_eq!(seen.named(NAME).len(), answers.len() + compared.len());
    assert_eq!(asked.len(), answers.len() + compared.len());
    engine_requests_are_below(&seen, &asked);
    batches_are_traces(&seen);
    judge(&seen, &asked, &answers);
}

/// Every request has one of the engine's, in its trace, below the phase that waits for it.
fn engine_requests_are_below(seen: &Seen, asked: &HashMap<u128, &Request>) {
    let worked: HashMap<u128, &Request> =
        seen.named("engine request").into_iter().map(|one| (trace(one), one)).collect();
    assert_eq!((seen.named("engine request").len(), worked.len()), (asked.len(), asked.len()));
    for (number, request) in asked {
        let (root, engine) = (request.root(), worked[number]);
        assert_eq!((root.source, root.status), (Source::Python, Some(200)));
        let generate = phase(request, "generate");
        assert_eq!(engine.root().trace.parent_span_id, Some(generate.trace.span_id));
        assert_ne!(engine.root().thread.tgid, root.thread.tgid);
        let names: Vec<&str> = engine.phases.iter().skip(1).map(|phase| phase.name.stored()).collect();
        assert_eq!(names, ["waiting", "prefill", "decode"]);
        // Both processes use one clock: the engine works while its server waits.
        let end = |phase: &guestscope::phase::Phase| phase.start_ns + phase.duration_ns;
        assert!(generate.start_ns <= engine.root().start_ns && end(engine.root()) <= end(generate));
    }
}

/// A worker's work is in the trace of the step that requested it.
fn batches_are_traces(seen: &Seen) {
    let steps = seen.named("engine step");
    let waits = |step: &&Request| step.phases.iter().any(|phase| phase.name.stored() == "wait for workers");
    assert!(steps.iter().any(waits));
    let steps: HashSet<u128> = steps.into_iter().map(trace).collect();
    let batches: Vec<&Request> = seen.named("worker step");
    assert!(!batches.is_empty());
    for batch in batches {
        let is_empty = batch.phases.iter().any(|phase| phase.name.stored() == "no tokens");
        assert!(is_empty || steps.contains(&trace(batch)), "{batch:?}");
    }
}

fn judge(seen: &Seen, asked: &HashMap<u128, &Request>, answers: &BTreeMap<u64, Answer>) {
    let causes = seen.causes();
    let (mut near, mut hits, mut inside, mut all) = (0, Vec::new(), 0, 0);
    let mut apart: Vec<u64> = Vec::new();
    for (number, answer) in answers {
        let request = asked[&u128::from(*number)];
        let root = request.root();
        let within = request.phases.iter().filter(|phase| phase.parent == Some(root.id));
        let queue = within.clone().filter(|phase| phase.kind == PhaseKind::Queue);
        let ours_ns = root.duration_ns + queue.map(|phase| phase.duration_ns).sum::<u64>();
        assert!(answer.begin_ns <= root.start_ns);
        let apart_ns = answer.duration_ns.abs_diff(ours_ns);
        near += usize::from(apart_ns <= 1_000_000.max(answer.duration_ns / 50));
        apart.push(apart_ns);
        if number.is_multiple_of(10) {
            hits.push(causes.get(&root.id).cloned().unwrap_or_default());
        } else {
            inside += within.map(|phase| phase.duration_ns).sum::<u64>();
            all += ours_ns;
        }
    }
    apart.sort_unstable();
    let named = hits.iter().filter(|cause| *cause == FAULT).count();
    let covered = inside as f64 / all as f64;
    let row = format!(
        "vllm: {} requests, {near} near, apart median {:.3} ms, worst {:.3} ms, covered {covered:.3}, {FAULT} named first {named} of {}: {hits:?}",
        answers.len(),
        apart[apart.len() / 2] as f64 / 1e6,
        apart[apart.len() - 1] as f64 / 1e6,
        hits.len(),
    );
    let _ = writeln!(std::io::stdout(), "{row}");
    assert!(named + (hits.len() / 20).max(1) >= hits.len(), "{row}");
    // Waiting of the event loop's thread for a CPU outside of phases depends on the machine.
    assert!(variable("GUESTSCOPE_REPETITIONS").is_none() || covered >= 0.95, "{row}");
}
