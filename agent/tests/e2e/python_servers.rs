//! Unmodified Python web servers under `guestscope run`: each of the client's requests is one of the agent's,
//! with its route and status, and a fault in every tenth is in the right ones.
//!
//! The applications and the load generator are in tests/data/e2e/web. GUESTSCOPE_WEB_PYTHON names an
//! interpreter that has the packages, such as that of a virtual environment; a server that it lacks is
//! skipped by name.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use guestscope::phase::{Phase, Request};
use guestscope_contract::{Account, Source};
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::Seen,
    ground::{Ground, file, python, skipped, variable},
};

const CLIENTS: &str = "3";
const REQUESTS: &str = "20";
const FAULT_NS: u64 = 30_000_000;

/// A server; `{}` in its arguments is the port.
struct Server {
    module: &'static str,
    words: &'static [&'static str],
    /// How the framework writes a route's parameter; empty for gRPC.
    id: &'static str,
    /// Account of the fault on the thread that serves the request.
    fault: Account,
    /// Number of threads that each serve one request at a time; 1 if the fault blocks all requests.
    workers: usize,
}

const UVICORN: &[&str] = &["-m", "uvicorn", "starlette_app:app", "--port", "{}", "--no-access-log"];
const WORKERS: &[&str] =
    &["-m", "uvicorn", "fastapi_app:app", "--port", "{}", "--no-access-log", "--workers", "2"];
const HYPERCORN: &[&str] = &["-m", "hypercorn", "-b", "127.0.0.1:{}", "starlette_app:app"];
const SYNC: &[&str] = &["-m", "gunicorn", "-b", "127.0.0.1:{}", "-w", "2", "flask_app:app"];
const THREADS: &[&str] =
    &["-m", "gunicorn", "-b", "127.0.0.1:{}", "-k", "gthread", "--threads", "3", "flask_app:app"];
const AIOHTTP: &[&str] = &["aiohttp_app.py", "{}"];
const GRPC_THREADS: &[&str] = &["grpc_app.py", "{}", "threads"];
const GRPC_ASYNCIO: &[&str] = &["grpc_app.py", "{}", "asyncio"];
const GREENLETS: &[&str] = &["-m", "gunicorn", "-b", "127.0.0.1:{}", "-k", "gevent", "flask_app:app"];

#[rstest]
#[case::uvicorn(Server { module: "uvicorn", words: UVICORN, id: "{id}", fault: Account::Sleep, workers: 1 })]
#[case::uvicorn_with_two_workers(
    Server { module: "fastapi", words: WORKERS, id: "{id}", fault: Account::Cpu, workers: 2 }
)]
#[case::hypercorn(
    Server { module: "hypercorn", words: HYPERCORN, id: "{id}", fault: Account::Sleep, workers: 1 }
)]
#[case::gunicorn_sync(
    Server { module: "gunicorn", words: SYNC, id: "<int:id>", fault: Account::Sleep, workers: 2 }
)]
#[case::gunicorn_threads(
    Server { module: "gunicorn", words: THREADS, id: "<int:id>", fault: Account::Sleep, workers: 1 }
)]
#[case::gunicorn_greenlets(
    Server { module: "gevent", words: GREENLETS, id: "<int:id>", fault: Account::Other, workers: 1 }
)]
#[case::aiohttp(
    Server { module: "aiohttp", words: AIOHTTP, id: "{id}", fault: Account::Sleep, workers: 1 }
)]
#[case::grpc_threads(
    Server { module: "grpc", words: GRPC_THREADS, id: "", fault: Account::Sleep, workers: 1 }
)]
#[case::grpc_asyncio(
    Server { module: "grpc", words: GRPC_ASYNCIO, id: "", fault: Account::Sleep, workers: 1 }
)]
fn each_request_of_an_unmodified_server_is_one(#[case] server: Server) {
    let test = "python_servers::each_request_of_an_unmodified_server_is_one";
    let (Some(ground), Some(interpreter)) = (Ground::new(test), interpreter(test, server.module)) else {
        return;
    };
    let port = free_port().to_string();
    let is_grpc = server.module == "grpc";
    let load = if is_grpc { "grpc_load.py" } else { "load.py" };
    let start = ground.run().program(&interpreter).word(file("tests/data/e2e/web").join(load));
    let start = start.words(&[&port, CLIENTS, REQUESTS, "--"]).word(&interpreter);
    let start = start.environment("PYTHONPATH", file("tests/data/e2e/web")).environment("FAULT_MS", "30");
    let start = server.words.iter().fold(start, |start, word| {
        let word = word.replace("{}", &port);
        if Path::new(&word).extension().is_some_and(|extension| extension == "py") {
            start.word(file("tests/data/e2e/web").join(word))
        } else {
            start.word(word)
        }
    });
    let done = start.finish().expect(0);
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    let lines: Vec<Value> = done.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let lines: Vec<&Value> = lines.iter().filter(|line| line.get("kind").is_some()).collect();
    assert_eq!(lines.len(), 60, "{}", done.stdout);
    assert_eq!(names(&seen), expected(&lines, &server));
    for request in &seen.requests {
        check(request, &lines, &server);
    }
    let processes: Vec<u32> = seen.requests.iter().map(|request| request.root().thread.tgid).collect();
    let used = processes.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!((1..=server.workers).contains(&used), "{used} processes served");
}

/// Number of requests of each name.
fn names(seen: &Seen) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for request in &seen.requests {
        *names.entry(request.root().name.stored().to_owned()).or_default() += 1;
    }
    names
}

fn expected(lines: &[&Value], server: &Server) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for line in lines {
        let kind = line["kind"].as_str().expect("each has one");
        let name = match server.id {
            "" => format!("/pkg.Service/{kind}"),
            id => format!("GET /{kind}/{id}"),
        };
        *names.entry(name).or_default() += 1;
    }
    names
}

/// The request began while a client waited for such an answer, and has the fault if the client asked for it.
fn check(request: &Request, lines: &[&Value], server: &Server) {
    let root = request.root();
    let status = (!server.id.is_empty()).then_some(200);
    assert_eq!((root.source, root.status), (Source::Python, status), "{root:?}");
    let name = root.name.stored();
    let is_its = |line: &&&Value| {
        let number = |key: &str| line[key].as_u64().expect("a time");
        name.contains(line["kind"].as_str().unwrap_or("none"))
            && (number("begin_ns")..=number("end_ns")).contains(&root.start_ns)
    };
    assert!(lines.iter().any(|line| is_its(&line)), "nobody asked for {root:?}");
    if name.contains("slow") {
        // What the thread does before it sleeps is not in the fault's account.
        assert!(fault(root, server.fault) >= FAULT_NS - FAULT_NS / 10, "{root:?}");
    }
}

/// A greenlet sleeps off its thread: suspended time of the request.
fn fault(root: &Phase, account: Account) -> u64 {
    if account == Account::Other { root.suspended_ns } else { root.accounts.get(account) }
}

fn interpreter(test: &str, module: &str) -> Option<PathBuf> {
    let python = variable("GUESTSCOPE_WEB_PYTHON").map(PathBuf::from).or_else(|| python(test))?;
    let mut import = Command::new(&python);
    import.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
    if import.status().is_ok_and(|status| status.success()) {
        return Some(python);
    }
    skipped("packages", &format!("{test}: no {module} for {}", python.display()));
    None
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback interface");
    listener.local_addr().expect("it is bound").port()
}
