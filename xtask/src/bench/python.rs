//! Unmodified Python programs with and without the agent and its automatic marks, in alternating pairs.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Bench, Row, json_of,
    ratio::{Ratio, median},
    two_results,
};
use crate::{process, python::Python};

const ASGI: &str = include_str!("asgi.py");
const FORWARD: &str = include_str!("forward.py");
const RANGES: &str = include_str!("ranges.py");
/// Ranges in a run, 0.2 s.
const FIRED: &str = "100000";
/// Inferences in a run, 4 s.
const REQUESTS: &str = "120";
/// Time of load on a server in each round, after the requests that warm its caches.
const ASKED: Duration = Duration::from_secs(3);
const WARMUP: u32 = 200;
/// Time for the server's imports.
const START_LIMIT: Duration = Duration::from_secs(30);
const QUESTION: &[u8] = b"GET /work/1 HTTP/1.1\r\nHost: x\r\n\r\n";

/// Rows that compare runs under the agent, with its automatic marks, to runs without it.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    Ok(vec![forward(bench)?, asgi(bench)?, ranges(bench)?])
}

fn forward(bench: &Bench<'_>) -> Result<Row> {
    let python = Python::for_servers(bench.xtask)?.program;
    let script = written(bench, "forward.py", FORWARD)?;
    let modules = bench.xtask.workspace.root.join("agent/tests/data/servers");
    let measured = bench.alternate("ResNet in Python with and without", &[false, true], |&observed| {
        let mut command = program(bench, observed, &python)?;
        command.arg(&script).arg(REQUESTS).env("PYTHONPATH", &modules).env_remove("LD_LIBRARY_PATH");
        number(&mut command, observed, "requests_per_s")
    })?;
    Ok(row("PyTorch in Python, requests per second, observed", &measured, ">= 0.99"))
}

fn ranges(bench: &Bench<'_>) -> Result<Row> {
    let python = Python::with_web_servers(bench.xtask)?.program;
    let script = written(bench, "ranges.py", RANGES)?;
    let measured = bench.alternate("an NVTX range with and without", &[false, true], |&observed| {
        let mut command = program(bench, observed, &python)?;
        number(command.arg(&script).arg(FIRED), observed, "ns")
    })?;
    let added: Vec<f64> =
        measured[1].iter().zip(&measured[0]).map(|(with, without)| with - without).collect();
    Ok(Row::alone("NVTX range of Python, observed", format!("+{:.0} ns", median(&added)), "<= +1500 ns"))
}

/// A number in the program's JSON, which precedes the agent's summary if the program is observed.
fn number(command: &mut Command, observed: bool, key: &str) -> Result<f64> {
    let outcome = if observed {
        let output = command.output().context("could not start the agent")?;
        two_results(&String::from_utf8_lossy(&output.stdout))?.0
    } else {
        json_of(command)?
    };
    outcome[key].as_f64().with_context(|| format!("the program gave no {key}"))
}

fn asgi(bench: &Bench<'_>) -> Result<Row> {
    let python = Python::with_web_servers(bench.xtask)?.program;
    let script = written(bench, "asgi.py", ASGI)?;
    let measured = bench.alternate("an ASGI handler with and without", &[false, true], |&observed| {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = program(bench, observed, &python)?;
        command.arg(&script).arg(port.to_string()).stdout(std::process::Stdio::null());
        process::kill_with_parent(&mut command);
        let mut server = command.spawn().context("could not start the server")?;
        let asked = throughput(port);
        kill(Pid::from_raw(i32::try_from(server.id())?), Signal::SIGTERM)?;
        server.wait()?;
        asked
    })?;
    Ok(row("ASGI handler of 1 ms, requests per second, observed", &measured, ">= 0.95"))
}

fn row(what: &str, measured: &[Vec<f64>], budget: &'static str) -> Row {
    Row {
        what: what.to_owned(),
        measured: format!("{:.1} against {:.1}", median(&measured[1]), median(&measured[0])),
        ratio: Ratio::new(&measured[1], &measured[0]),
        against: "of unobserved",
        budget,
    }
}

fn written(bench: &Bench<'_>, name: &str, text: &str) -> Result<PathBuf> {
    let path = bench.folder()?.join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}

fn program(bench: &Bench<'_>, observed: bool, python: &Path) -> Result<Command> {
    Ok(if observed { bench.observe("bench", python)? } else { Command::new(python) })
}

/// Requests per second of one client that keeps its connection.
fn throughput(port: u16) -> Result<f64> {
    let end = Instant::now() + START_LIMIT;
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => ensure!(Instant::now() < end, "the server does not listen: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    for _ in 0..WARMUP {
        ask(&mut stream)?;
    }
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < ASKED {
        ask(&mut stream)?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// The answer has a head and ten digits.
fn ask(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(QUESTION)?;
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let read = stream.read(&mut part)?;
        ensure!(read > 0, "the server hung up");
        answer.extend(&part[..read]);
        if let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n")
            && answer.len() >= head + 4 + 10
        {
            ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
            return Ok(());
        }
    }
}
