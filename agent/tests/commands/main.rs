//! Commands that read run folders, run as a user types them. Without root and without BPF: the library writes
//! the folders.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod explain;
mod export;
mod hostile;
mod ranks;
mod receiver;
mod replay;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use guestscope::{
    folder::{ClockPair, CreateOptions, Manifest, RunFolder},
    phase::{Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Request, ThreadId, TraceIds, Wait},
};
use guestscope_contract::{Account, Source};
use tempfile::TempDir;

const START: ClockPair = ClockPair { monotonic_ns: 1_000_000_000, wall_ns: 1_795_249_821_000_000_000 };

/// A request with one phase: 10 ms on the CPU and this time waiting for a lock.
fn request(number: u64, name: &str, locked_ns: u64) -> Request {
    let mut accounts = Accounts::default();
    accounts.0[Account::Cpu as usize] = 10_000_000;
    accounts.0[Account::Lock as usize] = locked_ns;
    Request {
        phases: vec![Phase {
            id: number + 1,
            parent: None,
            root: number + 1,
            kind: PhaseKind::Request,
            name: name.into(),
            name_damaged: false,
            source: Source::Marker,
            status: None,
            request: number,
            thread: ThreadId { tid: 11, tgid: 10, born_ns: 1 },
            comm: "".into(),
            start_ns: 1_000_000_000 + number * 50_000_000,
            duration_ns: accounts.total_ns(),
            suspended_ns: 0,
            accounts,
            counts: Counts::default(),
            helpers: Helpers::default(),
            trace: TraceIds { trace_id: [0xab; 16], ..TraceIds::default() },
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        }],
    }
}

fn wait(request: &Request) -> Wait {
    let root = request.root();
    Wait {
        phase: Some(root.id),
        root: Some(root.id),
        thread: root.thread,
        start_ns: root.start_ns + 1_000_000,
        duration_ns: root.accounts.get(Account::Lock),
        account: Account::Lock,
        blocked_ns: root.accounts.get(Account::Lock),
        throttled_ns: 0,
        syscall: Some(202),
        left_cpu: 0,
        cpu: 0,
        waker_tid: Some(4711),
        replaced_by_tid: 0,
        ran_before_tid: 0,
        ran_before_tgid: 0,
        ran_before_comm: "swapper/0".into(),
        ..Wait::default()
    }
}

/// This many requests, of which every tenth waited for a lock.
fn usual(count: u64) -> Vec<Request> {
    (0..count)
        .map(|number| request(number, "request", if number % 10 == 4 { 30_000_000 } else { 0 }))
        .collect()
}

/// A run folder in a temporary directory, written but not closed.
fn written(requests: &[Request]) -> (TempDir, RunFolder) {
    let parent = tempfile::tempdir().unwrap();
    let mut manifest = Manifest::new([0xab; 16], "ic", START);
    "MVM/2/VNL/CPU".clone_into(&mut manifest.scenario);
    "full".clone_into(&mut manifest.fidelity);
    let options = CreateOptions { parent: parent.path().to_owned(), owner: None };
    let mut folder = RunFolder::create(&options, manifest).unwrap();
    for request in requests {
        folder.append_request(request);
        if request.root().accounts.get(Account::Lock) > 0 {
            folder.append_wait(&wait(request));
        }
    }
    (parent, folder)
}

fn closed(requests: &[Request]) -> (TempDir, PathBuf) {
    let (parent, folder) = written(requests);
    let closed = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap();
    assert!(closed.errors.is_empty(), "{:?}", closed.errors);
    (parent, closed.path)
}

fn agent(command: &str, folder: &Path, more: &[&str]) -> Output {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    agent.arg(command).arg(folder).args(more);
    for name in ["COLUMNS", "LANG", "LC_ALL", "LC_CTYPE"] {
        agent.env_remove(name);
    }
    // Ignore the OTLP settings of the user who runs the tests.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        agent.env_remove(name);
    }
    agent.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    agent.env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=7");
    agent.output().unwrap()
}

/// The output of a command with this exit code, with the folder's path removed.
fn said(command: &str, folder: &Path, more: &[&str], code: i32) -> String {
    let output = agent(command, folder, more);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    let (said, other) = if code == 0 { (out, err) } else { (err, out) };
    assert_eq!(other, "");
    let parent = folder.parent().unwrap().display().to_string();
    said.replace(&parent, "RUNS")
}

/// Output of `explain`.
fn explain(folder: &Path, more: &[&str], code: i32) -> String {
    said("explain", folder, more, code)
}
