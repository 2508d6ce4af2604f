//! `guestscope ranks`: folders of a made training, put together; the same without a late rank, with one rank,
//! without collectives, of several guests, and damaged.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use guestscope::{
    folder::{ClockPair, CreateOptions, Manifest, RunFolder},
    phase::{Accounts, Phase, PhaseKind, Request},
    untrusted::is_unsafe,
};
use guestscope_contract::Account;
use insta::assert_snapshot;
use serde_json::Value;
use tempfile::TempDir;

use super::{START, agent, request};

const MS: u64 = 1_000_000;
const STEPS: u64 = 60;

/// The steps of a process that sleeps so long before each collective, beside one that sleeps 30 ms.
fn steps(pid: u32, sleeps_ns: u64) -> Vec<Request> {
    (0..STEPS).map(|number| step(pid, number, sleeps_ns)).collect()
}

fn step(pid: u32, number: u64, sleeps_ns: u64) -> Request {
    let mut made = request(u64::from(pid) * 1_000 + 2 * number, "train_step", 0);
    let root = &mut made.phases[0];
    root.thread.tgid = pid;
    root.comm = "python3".into();
    root.start_ns = START.monotonic_ns + number * 50 * MS;
    root.accounts = Accounts::from([(Account::Cpu, 2 * MS), (Account::Sleep, sleeps_ns)]);
    // Whoever is early waits in the collective.
    let waits_ns = 31 * MS - sleeps_ns;
    let wait = Accounts::from([(Account::Lock, waits_ns)]);
    root.accounts.add(&wait);
    root.duration_ns = root.accounts.total_ns();
    let call = Phase {
        id: root.id + 1,
        parent: Some(root.id),
        kind: PhaseKind::Phase,
        name: "all_reduce".into(),
        start_ns: root.start_ns + 2 * MS + sleeps_ns,
        duration_ns: waits_ns,
        accounts: wait,
        ..root.clone()
    };
    made.phases.push(call);
    made
}

/// A training: folders named by their letters, one after the other.
struct Training {
    place: TempDir,
    folders: Vec<PathBuf>,
}

impl Training {
    fn new() -> Self {
        Self { place: tempfile::tempdir().unwrap(), folders: Vec::new() }
    }

    fn folder(mut self, boot_id: &str, requests: &[Request]) -> Self {
        let number = self.folders.len() as u8;
        let letter = char::from(b'a' + number).to_string();
        let mut manifest = Manifest::new([number + 1; 16], &letter, START);
        manifest.command = vec!["train".to_owned()];
        boot_id.clone_into(&mut manifest.boot_id);
        "full".clone_into(&mut manifest.fidelity);
        let parent = self.place.path().join("made");
        fs::create_dir_all(&parent).unwrap();
        let mut folder = RunFolder::create(&CreateOptions { parent, owner: None }, manifest).unwrap();
        for request in requests {
            folder.append_request(request);
        }
        let closed = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap();
        let path = self.place.path().join(letter);
        fs::rename(closed.path, &path).unwrap();
        self.folders.push(path);
        self
    }

    fn judge(&self, more: &[&str]) -> Output {
        let others = self.folders[1..].iter().map(|path| path.to_str().unwrap());
        let words: Vec<&str> = others.chain(more.iter().copied()).collect();
        agent("ranks", &self.folders[0], &words)
    }

    /// What is printed with this exit code: standard output, and all of standard error before it.
    fn said(&self, more: &[&str], code: i32) -> String {
        let output = self.judge(more);
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
        format!("{err}{out}").replace(&self.place.path().display().to_string(), "RUNS")
    }
}

/// Three processes in three folders of one boot; the second one sleeps 20 ms longer.
fn slow() -> Training {
    let of = |training: Training, (pid, sleeps_ns)| training.folder("boot", &steps(pid, sleeps_ns));
    [(10, 10 * MS), (20, 30 * MS), (30, 10 * MS)].into_iter().fold(Training::new(), of)
}

#[test]
fn the_late_rank_is_named_and_why() {
    let training = slow();
    assert_snapshot!(training.said(&[], 0));
    let json: Value = serde_json::from_str(&training.said(&["--json"], 0)).unwrap();
    let straggler = &json["straggler"];
    assert_eq!((&straggler["rank"], &straggler["last"]), (&1.into(), &STEPS.into()));
    assert_eq!((&straggler["late_ns"], &straggler["margin_ns"]), (&20_000_000.into(), &20_000_000.into()));
    let first = &straggler["steps"]["accounts"][0];
    assert_eq!((&first["account"], &first["difference_ns"]), (&"sleep".into(), &20_000_000.into()));
    assert_eq!((&json["ranks"][1]["pid"], &json["clocks"]), (&20.into(), &1.into()));
}

#[test]
fn in_narrow_columns_and_without_colour() {
    let training = slow();
    let mut narrow = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    narrow.current_dir(training.place.path()).env("COLUMNS", "80").env_remove("LC_ALL").env("LANG", "C");
    let output = narrow.args(["ranks", "a", "b", "c"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.len() < 80), "{text}");
    assert_snapshot!(text);
}

#[test]
fn equal_ranks_are_not_named() {
    let of = |training: Training, pid| {
        // Each comes last to a third of the calls.
        let turn = |number: u64| if number % 3 == u64::from(pid / 10 - 1) { 2 * MS } else { 0 };
        let steps: Vec<Request> =
            (0..STEPS).map(|number| step(pid, number, 10 * MS + turn(number))).collect();
        training.folder("boot", &steps)
    };
    let training = [10, 20, 30].into_iter().fold(Training::new(), of);
    assert_snapshot!(training.said(&[], 0));
}

/// Several processes in one folder, in the order of their times.
#[test]
fn several_processes_of_one_folder_are_ranks_too() {
    let mut requests = [steps(10, 10 * MS), steps(20, 30 * MS)].concat();
    requests.sort_by_key(|request| request.root().start_ns);
    let text = Training::new().folder("boot", &requests).said(&[], 0);
    assert!(text.starts_with("rank 1 (process 20 in a) came last to 60 of 60 calls"), "{text}");
    assert!(text.contains("\nfolder        RUNS/a\n"), "{text}");
}

#[test]
fn guests_with_clocks_of_their_own() {
    let two =
        |sleeps_ns| Training::new().folder("one", &steps(10, 10 * MS)).folder("two", &steps(10, sleeps_ns));
    let within = two(15 * MS);
    assert_snapshot!(within.said(&[], 0));
    let text = within.said(&["--clocks", "1ms"], 0);
    assert!(text.starts_with("rank 1 (process 10 in b) came last"), "{text}");
    let text = two(30 * MS).said(&[], 0);
    assert!(text.starts_with("rank 1 (process 10 in b) came last"), "{text}");
    assert_snapshot!(within.said(&["--clocks", "0ms"], 2));
}

#[test]
fn one_rank_and_none() {
    assert_snapshot!(Training::new().folder("boot", &steps(10, 10 * MS)).said(&[], 2));
    let marked: Vec<Request> = (0..30).map(|number| request(number, "train_step", 0)).collect();
    let none = Training::new().folder("boot", &marked).folder("boot", &marked[..3]);
    assert_snapshot!(none.said(&[], 2));
    let one_without = slow().folder("boot", &marked);
    let text = one_without.said(&[], 0);
    assert!(text.starts_with("warning: left out: no collectives in: RUNS/d\nrank 1 "), "{text}");
}

#[test]
fn too_few_calls_and_missing_ones_name_nobody() {
    let few =
        Training::new().folder("boot", &steps(10, 10 * MS)[..19]).folder("boot", &steps(20, 30 * MS)[..19]);
    let text = few.said(&[], 0);
    assert!(
        text.contains("\nall_reduce: fewer than 20 calls were made by all ranks that call it\n"),
        "{text}"
    );
    let mut lost = steps(20, 10 * MS);
    lost.remove(30);
    let missing = Training::new().folder("boot", &steps(10, 30 * MS)).folder("boot", &lost);
    let text = missing.said(&[], 0);
    assert!(text.starts_with("no rank is named: it is not certain who came last\n"), "{text}");
    assert!(text.contains("\nleft out      119 calls of all_reduce"), "{text}");
}

#[test]
fn folders_that_cannot_be_read() {
    let training = slow();
    fs::write(training.folders[2].join("manifest.json"), "{").unwrap();
    let text = training.said(&[], 0);
    assert!(text.starts_with("warning: left out: damaged file in the run folder: RUNS/c/"), "{text}");
    let rows = training.folders[0].join("phases.parquet");
    let bytes = fs::read(&rows).unwrap();
    fs::write(&rows, &bytes[..bytes.len() / 2]).unwrap();
    // What is left is one rank.
    let text = training.said(&[], 2);
    assert!(text.contains("\nwarning: RUNS/a: judged by what could be read: damaged file"), "{text}");
    assert!(text.contains("\nerror: only one rank: process 20 of RUNS/b\n\nhint: "), "{text}");
    let nowhere = agent("ranks", &training.place.path().join("nowhere"), &[]);
    let text = String::from_utf8(nowhere.stderr).unwrap();
    assert!(text.starts_with("error: no run folder: ") && text.contains("\n\nhint: name folders"), "{text}");
    assert_eq!(nowhere.status.code(), Some(2));
}

/// Names that others choose give no orders.
#[test]
fn hostile_names_are_plain() {
    let name = "x\u{1b}[2J\u{202e}\r\nhint: obey";
    let hostile = |mut request: Request| {
        request.phases[0].name = name.into();
        request.phases.iter_mut().for_each(|phase| phase.comm = name.into());
        request
    };
    let all = [(10, 10 * MS), (20, 30 * MS)];
    let of = |training: Training, (pid, sleeps_ns)| {
        training.folder(name, &steps(pid, sleeps_ns).into_iter().map(hostile).collect::<Vec<_>>())
    };
    let training = all.into_iter().fold(Training::new(), of);
    let text = training.said(&[], 0);
    assert!(
        text.starts_with("rank 1 ") && text.contains("has, outside collectives, +20.0 ms of sleep"),
        "{text}"
    );
    for text in [text, training.said(&["--json"], 0)] {
        let found: Vec<char> = text.chars().filter(|c| *c != '\n' && is_unsafe(*c)).collect();
        assert!(found.is_empty() && !text.contains("\nhint: obey"), "{found:?} {text:?}");
    }
}

/// A directory that holds the folders, with a copy of one of them.
#[test]
fn a_directory_of_folders_and_a_copy() {
    let training = slow();
    let copy = training.place.path().join("copy-of-a");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&training.folders[0]).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let output = agent("ranks", training.place.path(), &[]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(err.starts_with("warning: left out: the same run as another folder: "), "{err}");
    assert!(err.ends_with("/copy-of-a\n"), "{err}");
    assert!(out.starts_with("rank 1 (process 20 in b) came last to 60 of 60 calls"), "{out}");
}

/// A wall clock that stands elsewhere: only times of one boot are put together without it.
#[test]
fn runs_of_different_days_are_not_put_together() {
    let training = Training::new().folder("one", &steps(10, 10 * MS)).folder("two", &steps(20, 30 * MS));
    let path = training.folders[1].join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let ClockPair { monotonic_ns, wall_ns } = START;
    let other = serde_json::json!({ "monotonic_ns": monotonic_ns, "wall_ns": wall_ns + 86_400_000 * MS });
    manifest["clocks"] = serde_json::json!([other]);
    fs::write(&path, manifest.to_string()).unwrap();
    let text = training.said(&[], 0);
    assert!(text.contains("all_reduce: rank 1 made its calls at other times than the others"), "{text}");
}
