//! Real servers with a fault in every tenth request, compared with their clients' measurements: a row for
//! each.
//!
//! Counts, and the account of the fault, are always judged. GUESTSCOPE_REPETITIONS sets the number of
//! requests; then causes, durations and coverage, which other load disturbs, are judged as well.

mod row;
mod server;

use std::collections::HashMap;

pub(crate) use self::server::has;

use guestscope::phase::{Phase, PhaseKind, Request};
use guestscope_contract::{Account, Source};
use rstest::rstest;

use self::{
    row::{One, Row},
    server::{LLAMA, Load, Native, Observed, Server},
};
use crate::{client::Answered, kept};

/// Enough requests for four faults.
const REQUESTS: u64 = 40;

const UVICORN: &[&str] = &["-m", "uvicorn", "app:app", "--port", "{}", "--no-access-log"];
const WORKERS: &[&str] = &["-m", "uvicorn", "app:app", "--port", "{}", "--no-access-log", "--workers", "2"];
const SYNC: &[&str] = &["-m", "gunicorn", "-b", "127.0.0.1:{}", "-w", "2", "flask_app:app"];
const THREADS: &[&str] =
    &["-m", "gunicorn", "-b", "127.0.0.1:{}", "-k", "gthread", "--threads", "2", "flask_app:app"];
const GRPC_THREADS: &[&str] = &["grpc_app.py", "{}", "threads"];
const GRPC_ASYNCIO: &[&str] = &["grpc_app.py", "{}", "asyncio"];

const PREDICT: &[&str] = &["predict=program:main.predict:arg1"];

const FASTAPI: Load = Load::Http("GET /predict/{number}");
const FLASK: Load = Load::Http("GET /predict/<int:number>");
const GRPC: Load = Load::Grpc("/test.Service/predict");

#[rstest]
#[case::uvicorn("fastapi uvicorn", Server { module: "uvicorn", words: UVICORN, load: FASTAPI, kind: "torch", fault: Account::Lock, workers: 1 })]
#[case::uvicorn_async("fastapi uvicorn", Server { module: "uvicorn", words: UVICORN, load: FASTAPI, kind: "torch-async", fault: Account::Sleep, workers: 1 })]
#[case::two_workers("fastapi 2 workers", Server { module: "uvicorn", words: WORKERS, load: FASTAPI, kind: "torch", fault: Account::Net, workers: 2 })]
#[case::two_workers_async("fastapi 2 workers", Server { module: "uvicorn", words: WORKERS, load: FASTAPI, kind: "torch-async", fault: Account::Cpu, workers: 2 })]
#[case::onnxruntime("fastapi uvicorn", Server { module: "uvicorn", words: UVICORN, load: FASTAPI, kind: "onnx", fault: Account::BlockIo, workers: 1 })]
#[case::transformers("fastapi uvicorn", Server { module: "uvicorn", words: UVICORN, load: FASTAPI, kind: "generate", fault: Account::Sleep, workers: 1 })]
#[case::llama_cpp("fastapi uvicorn", Server { module: "uvicorn, llama_cpp", words: UVICORN, load: FASTAPI, kind: LLAMA, fault: Account::Lock, workers: 1 })]
#[case::gunicorn_sync("flask gunicorn sync", Server { module: "gunicorn", words: SYNC, load: FLASK, kind: "torch", fault: Account::Net, workers: 2 })]
#[case::gunicorn_threads("flask gunicorn gthread", Server { module: "gunicorn", words: THREADS, load: FLASK, kind: "torch", fault: Account::Lock, workers: 1 })]
#[case::grpc_threads("grpc threads", Server { module: "grpc", words: GRPC_THREADS, load: GRPC, kind: "onnx", fault: Account::Sleep, workers: 1 })]
#[case::grpc_asyncio("grpc asyncio", Server { module: "grpc", words: GRPC_ASYNCIO, load: GRPC, kind: "onnx", fault: Account::Net, workers: 1 })]
fn requests_are_the_clients_and_the_fault_is_named(#[case] name: &str, #[case] server: Server) {
    let test = format!("measured::{name}, {}", server.kind);
    let Some(observed) = server.observed(&test, repetitions().unwrap_or(REQUESTS)) else { return };
    let longest_queue_ns = observed.seen.requests.iter().map(queue_ns).max().unwrap_or(0);
    // Requests that arrive during a fault wait for the only event loop, and the server's own log does not
    // show this.
    assert!(!server.has_one_loop() || longest_queue_ns >= server::FAULT_NS / 2, "{longest_queue_ns} ns");
    if server.kind == LLAMA {
        for request in observed.seen.named(server.load.request()) {
            let decodes = request.phases.iter().filter(|phase| phase.source == Source::Function);
            assert_eq!(decodes.filter(|phase| phase.name.stored() == "decode").count(), 8, "{request:#?}");
        }
    }
    let pairs = by_trace(&server, &observed);
    let row = Row::of(format!("{name}, {}", server.kind), server.fault.name(), &pairs);
    kept::keep(Row::head(), row.text());
    // What a thread does before a wait is not part of it. During 150 ms of disk reads it waits many times.
    let least_ns = server::FAULT_NS * if server.fault == Account::BlockIo { 6 } else { 9 } / 10;
    for one in pairs.iter().filter(|one| one.is_hit()) {
        assert!(one.fault_ns >= least_ns, "{one:?}");
    }
    if repetitions().is_some() {
        assert!(row.is_named() && row.is_close() && row.is_covered(), "{}", row.text());
    }
}

/// Java sleeps in a futex with a timeout, which is the account `lock`. A goroutine leaves the thread that
/// received its request, and takes the request along.
#[rstest]
#[case::go("go net/http, by its port", Native::Go, &[], "cpu")]
#[case::go_with_a_function("go net/http, port and function", Native::Go, PREDICT, "cpu")]
#[case::java("java HttpServer, by its port", Native::Java, &[], "lock")]
fn requests_of_a_port_are_the_clients(
    #[case] name: &str,
    #[case] server: Native,
    #[case] phases: &[&str],
    #[case] fault: &str,
) {
    let test = format!("measured::{name}");
    let Some(observed) = server.observed(&test, phases, repetitions().unwrap_or(REQUESTS)) else { return };
    let port = observed.seen.requests[0].root().name.to_string();
    let pairs = by_time(&observed, &port);
    let row = Row::of(name.to_owned(), fault, &pairs);
    kept::keep(Row::head(), row.text());
    for request in observed.seen.named(&port).iter().filter(|_| !phases.is_empty()) {
        let phases: Vec<&str> = request.phases[1..].iter().map(|phase| phase.name.stored()).collect();
        assert_eq!(phases.iter().filter(|name| **name == "predict").count(), 1, "{request:#?}");
    }
    let is_covered = phases.is_empty() || row.is_covered();
    assert!(repetitions().is_none() || row.is_named() && row.is_close() && is_covered, "{}", row.text());
}

/// HTTP/2 has frames that are no requests. The fault sleeps on a pool's thread, after the request has left
/// the thread that receives.
#[rstest]
#[case::threads(GRPC_THREADS, &["handoff", "poll", "sleep"])]
fn calls_of_grpc_are_requests_of_their_port(#[case] words: &'static [&'static str], #[case] causes: &[&str]) {
    let (name, fault) = ("grpc threads, by its port", Account::Sleep);
    let server = Server { module: "grpc", words, load: GRPC, kind: "onnx", fault, workers: 1 };
    let test = format!("measured::{name}");
    let Some(observed) = server.observed_by_port(&test, repetitions().unwrap_or(REQUESTS)) else { return };
    let port = observed.seen.requests[0].root().name.to_string();
    let pairs = by_time(&observed, &port);
    let row = Row::of(name.to_owned(), causes[0], &pairs);
    kept::keep(Row::head(), row.text());
    let is_named = pairs.iter().filter_map(|one| one.cause.as_deref()).any(|cause| causes.contains(&cause));
    assert!(repetitions().is_none() || is_named && row.is_close(), "{}", row.text());
}

/// The fault is in a worker process: the step waits for it in poll, and the worker's own batch sleeps.
#[test]
fn steps_are_as_long_as_the_loop_says() {
    let steps = repetitions().unwrap_or(REQUESTS);
    let Some(observed) = server::trained("measured::steps", Account::Sleep, steps) else { return };
    let row = Row::of("training, DataLoader of 2".to_owned(), "poll", &by_time(&observed, "step"));
    kept::keep(Row::head(), row.text());
    assert!(repetitions().is_none() || row.is_named() && row.is_close(), "{}", row.text());
    let slept = observed
        .seen
        .named("load")
        .into_iter()
        .filter(|load| load.root().accounts.get(Account::Sleep) >= server::FAULT_NS * 9 / 10);
    assert!(slept.count() as u64 + 1 >= steps / 10);
}

/// The number of requests in GUESTSCOPE_REPETITIONS, if set.
fn repetitions() -> Option<u64> {
    std::env::var("GUESTSCOPE_REPETITIONS").ok()?.parse().ok()
}

/// Pairs each request of the client with the agent's by the trace id that it sent.
fn by_trace(server: &Server, observed: &Observed) -> Vec<One> {
    let Observed { answered, seen, causes } = observed;
    let requests = seen.named(server.load.request());
    assert_eq!(requests.len(), answered.len(), "requests of {}", server.load.request());
    let pair = |answered: &Answered| {
        let is_its = |request: &&&Request| {
            u128::from_be_bytes(request.root().trace.trace_id) == u128::from(answered.number)
        };
        let request = requests.iter().find(is_its).unwrap_or_else(|| panic!("no trace of {answered:?}"));
        One { fault_ns: request.root().accounts.get(server.fault), ..one(answered, request, causes) }
    };
    answered.iter().map(pair).collect()
}

/// Pairs requests by the time of their arrival: both clients send at the same time, but hardly ever within a
/// millisecond.
fn by_time(observed: &Observed, name: &str) -> Vec<One> {
    let Observed { answered, seen, causes } = observed;
    let mut requests = seen.named(name);
    assert_eq!(requests.len(), answered.len(), "{:?}", seen.endings());
    let mut pair = |answered: &Answered| {
        // Of two requests that begin together, durations decide.
        let apart = |request: &Request| {
            let one = one(answered, request, causes);
            let begin_ns = request.root().start_ns - queue_ns(request);
            begin_ns.abs_diff(answered.begin_ns) + one.ours_ns.abs_diff(one.client_ns)
        };
        let nearest = (0..requests.len()).min_by_key(|&at| apart(requests[at])).expect("there are as many");
        one(answered, requests.swap_remove(nearest), causes)
    };
    answered.iter().map(&mut pair).collect()
}

fn one(answered: &Answered, request: &Request, causes: &HashMap<u64, String>) -> One {
    One {
        number: answered.number,
        client_ns: answered.duration_ns,
        ours_ns: request.root().duration_ns + queue_ns(request),
        covered_ns: within(request, |_| true),
        fault_ns: 0,
        cause: causes.get(&request.root().id).cloned(),
    }
}

fn queue_ns(request: &Request) -> u64 {
    within(request, |phase| phase.kind == PhaseKind::Queue)
}

/// Time in a request's direct child phases for which `is_so` holds. Before its start it waited in a queue.
fn within(request: &Request, is_so: impl Fn(&Phase) -> bool) -> u64 {
    let root = request.root().id;
    let phases = request.phases.iter().filter(|phase| phase.parent == Some(root) && is_so(phase));
    phases.map(|phase| phase.duration_ns).sum()
}
