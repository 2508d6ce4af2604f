//! A server's run: started under `guestscope run`, ready, loaded, ended.

use std::{
    collections::HashMap,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use guestscope_contract::Account;
use nix::sys::signal::Signal;

use crate::{
    client::{self, Answered},
    folder::Seen,
    ground::{Ground, eventually, file, skipped},
    natives,
    running::{Running, Start},
    service::python,
};

const CLIENTS: u64 = 2;
/// Length of a fault: far longer than other requests take.
pub(super) const FAULT_NS: u64 = 150_000_000;

/// The kind of work whose phases are functions of a library.
pub(super) const LLAMA: &str = "llama";

/// Number of clients, and the name of their requests.
pub(super) enum Load {
    Http(&'static str),
    Grpc(&'static str),
}

/// A server; `{}` in its arguments is the port.
pub(super) struct Server {
    /// Modules that the interpreter must have, separated by commas.
    pub(super) module: &'static str,
    pub(super) words: &'static [&'static str],
    pub(super) load: Load,
    /// Kind of work in a request.
    pub(super) kind: &'static str,
    pub(super) fault: Account,
    /// Processes that serve.
    pub(super) workers: usize,
}

/// A server that cannot be marked: its requests are those of its port.
#[derive(Clone, Copy)]
pub(super) enum Native {
    Go,
    Java,
}

/// The clients' measurements, and the content of the run folder.
pub(super) struct Observed {
    pub(super) answered: Vec<Answered>,
    pub(super) seen: Seen,
    /// The cause of each slow request, by the number of its row.
    pub(super) causes: HashMap<u64, String>,
}

impl Load {
    pub(super) const fn request(&self) -> &'static str {
        match self {
            Load::Http(name) | Load::Grpc(name) => name,
        }
    }

    fn ask(&self, python: &Path, port: u16, requests: u64) -> Vec<Answered> {
        match self {
            Load::Http(_) => client::ask(port, CLIENTS, requests),
            Load::Grpc(_) => ask_by_grpc(python, port, requests),
        }
    }
}

impl Server {
    /// Whether one event loop does all the work, so that the second client always waits for the first.
    pub(super) fn has_one_loop(&self) -> bool {
        self.workers == 1 && (self.kind.ends_with("-async") || self.words.contains(&"asyncio"))
    }

    /// One run with its clients.
    pub(super) fn observed(&self, test: &str, requests: u64) -> Option<Observed> {
        self.observed_by(test, requests, |run, _| run)
    }

    /// One run with its clients, with requests known by the port only.
    pub(super) fn observed_by_port(&self, test: &str, requests: u64) -> Option<Observed> {
        self.observed_by(test, requests, |run, port| {
            run.words(&["--sources", "none", "--requests", &format!("port:{port}")])
        })
    }

    fn observed_by(
        &self,
        test: &str,
        requests: u64,
        options: impl Fn(Start, u16) -> Start,
    ) -> Option<Observed> {
        let (ground, python) = (Ground::new(test)?, python(test)?);
        if !has(&python, self.module) {
            skipped("packages", &format!("{test}: no {} for {}", self.module, python.display()));
            return None;
        }
        let port = free_port();
        let files = file("tests/data/servers");
        let start = options(ground.run(), port);
        let start = if self.kind == LLAMA { start.words(&["--phase", "llama.cpp"]) } else { start };
        let start = start.program(&python);
        let start = self.words.iter().fold(start, |start, word| match word.strip_suffix(".py") {
            Some(_) => start.word(files.join(word)),
            None => start.word(word.replace("{}", &port.to_string())),
        });
        let start =
            start.environment("SERVICE_KIND", self.kind).environment("SERVICE_NOTE", ground.path("note"));
        let start = start
            .environment("FAULT", self.fault.name())
            .environment("FAULT_MS", (FAULT_NS / 1_000_000).to_string());
        let start = start.environment("PYTHONPATH", &files).environment("PYTHONDONTWRITEBYTECODE", "1");
        let running = start.environment("FAULT_DISK", ground.path("")).spawn();
        let is_ready = || ready(&ground) == self.workers && TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually("the server is ready", || is_ready().then_some(()));
        let answered = self.load.ask(&python, port, requests);
        Some(ended(running, answered))
    }
}

impl Native {
    pub(super) fn observed(self, test: &str, phases: &[&str], requests: u64) -> Option<Observed> {
        let ground = Ground::new(test)?;
        let words = match self {
            Native::Go => vec![natives::go(test, &ground, "server.go", &[])?],
            Native::Java => natives::java(test, &ground)?,
        };
        let port = free_port();
        let start = phases.iter().fold(ground.run(), |start, phase| start.words(&["--phase", phase]));
        let start = start.words(&["--requests", &format!("port:{port}")]).program(&words[0]);
        let start = words[1..].iter().fold(start, Start::word).word(port.to_string());
        let running = start.environment("FAULT_MS", (FAULT_NS / 1_000_000).to_string()).spawn();
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        let answered = client::ask(port, CLIENTS, requests);
        Some(ended(running, answered))
    }
}

fn ended(running: Running, answered: Vec<Answered>) -> Observed {
    running.signal(Signal::SIGTERM);
    let done = running.finish();
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    Observed { answered, causes: seen.causes(), seen }
}

/// A training loop. Its own clock takes the place of a client's; the first step has no start there.
pub(super) fn trained(test: &str, fault: Account, steps: u64) -> Option<Observed> {
    let (ground, python) = (Ground::new(test)?, python(test)?);
    let start = ground.run().program(python).word(file("tests/data/servers/training.py"));
    let start = start.word((steps + 1).to_string()).word(ground.path("times"));
    let start = start.environment("FAULT", fault.name()).environment("PYTHONDONTWRITEBYTECODE", "1");
    let done = start.environment("FAULT_MS", (FAULT_NS / 1_000_000).to_string()).finish().expect(0);
    assert_eq!(done.losses(), []);
    let mut seen = done.seen();
    seen.requests.sort_by_key(|request| request.root().start_ns);
    seen.requests.retain(|request| {
        let root = request.root();
        root.name.stored() == "load" || root.name.stored() == "step" && root.request > 1
    });
    let times = std::fs::read_to_string(ground.path("times")).expect("the program wrote them");
    let times: Vec<u64> = times.lines().map(|line| line.parse().expect("a time")).collect();
    let step = |(number, pair): (u64, &[u64])| Answered {
        number,
        begin_ns: pair[0],
        duration_ns: pair[1] - pair[0],
    };
    let answered = (1..).zip(times.windows(2)).map(step).collect();
    Some(Observed { answered, causes: seen.causes(), seen })
}

/// Number of processes that have loaded their model.
fn ready(ground: &Ground) -> usize {
    let entries = std::fs::read_dir(ground.path("")).expect("the folder is ours");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("note.ready.")).count()
}

pub(crate) fn has(python: &Path, module: &str) -> bool {
    let mut import = Command::new(python);
    import.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback interface");
    listener.local_addr().expect("it is bound").port()
}

fn ask_by_grpc(python: &Path, port: u16, requests: u64) -> Vec<Answered> {
    let client: PathBuf = file("tests/data/servers/grpc_client.py");
    let words = [port.to_string(), CLIENTS.to_string(), requests.to_string()];
    let output = Command::new(python).arg(client).args(words).output().expect("the interpreter runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it writes numbers");
    let one = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        Answered { number: numbers[0], begin_ns: numbers[1], duration_ns: numbers[2] - numbers[1] }
    };
    text.lines().map(one).collect()
}
