//! Stalls on a GPU as a program, against the project's stub of CUDA's driver: their logs, their errors, and
//! the end of the other process. No GPU takes part, and no timing is judged.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);
const MS: u64 = 1_000_000;
/// Variable by which a test knows its processes.
const MARK: &str = "GUESTSCOPE_TEST_STALL";

/// A folder with a file under the name of the driver's library.
fn with_library(file: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    fs::copy(file, folder.path().join("libcuda.so.1")).expect("the file is there");
    folder
}

/// The stub, which cargo builds with all tests.
fn stub() -> TempDir {
    let program = Path::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    let built = program.with_file_name("examples").join("libworkloads_cuda_stub.so");
    assert!(built.exists(), "build it with `--example workloads_cuda_stub`: {}", built.display());
    with_library(&built)
}

/// The program, which finds the driver's library in this folder before any other.
fn command(library: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.args(arguments).env("LD_LIBRARY_PATH", library.path()).env_remove("GUESTSCOPE_WORKLOAD_FILE");
    command
}

fn stall(library: &TempDir, arguments: &[&str]) -> Command {
    command(library, &[&["stall"], arguments, &["--work", "100us"]].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

/// The log of a run that succeeds.
fn injected(arguments: &[&str]) -> Vec<Value> {
    let (library, folder) = (stub(), tempfile::tempdir().expect("a folder can be made"));
    let log = folder.path().join("truth.jsonl");
    let told = ["--json", "--log", log.to_str().expect("the folder's name is plain")];
    let output = stall(&library, &[arguments, &told].concat()).output().expect("cargo built it");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    let lines = fs::read_to_string(&log).expect("the log was written");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let sum: u64 = lines.iter().map(|line| number(line, "ns")).sum();
    let kinds = report["injected"].as_array().expect("it is a list");
    assert_eq!(kinds.iter().map(|kind| number(kind, "ns")).sum::<u64>(), sum);
    lines
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} in {line}"))
}

/// What holds of every kind: the fault has at least its size, and lies in what its thread saw.
fn check(line: &Value) {
    let [asked_ns, ns, wall_ns] = ["asked_ns", "ns", "wall_ns"].map(|name| number(line, name));
    assert!(asked_ns <= ns && ns <= wall_ns, "{line}");
    assert!(number(line, "cpu_ns") <= wall_ns, "{line}");
    assert!(number(line, "count") > 0, "{line}");
}

#[rstest]
#[case::copies("gpu-copy")]
#[case::launches("gpu-launch")]
#[case::neighbour("gpu-neighbour")]
fn a_fault_on_the_stub_has_its_size(#[case] kind: &str) {
    let log = injected(&[kind, "--requests", "12", "--every", "4", "--size", "3ms", "--spread", "50"]);
    assert_eq!(log.len(), 3);
    for line in &log {
        assert_eq!(line["kind"], kind);
        check(line);
    }
}

#[test]
fn copies_are_counted_in_bytes_and_launches_at_their_pace() {
    for line in injected(&["gpu-copy", "--requests", "3", "--every", "1", "--size", "2ms"]) {
        assert_eq!(number(&line, "count") % (256 << 10), 0, "{line}");
    }
    for line in injected(&["gpu-launch", "--requests", "3", "--every", "1", "--size", "2ms"]) {
        // One each 20 us at most.
        assert!(number(&line, "count") <= number(&line, "ns") / 20_000, "{line}");
    }
}

/// The stub's thread wakes the request, as CUDA's does.
#[test]
fn a_request_can_wait_for_the_card_asleep() {
    let log = injected(&[
        "gpu-neighbour",
        "--wait",
        "sleep",
        "--requests",
        "4",
        "--every",
        "2",
        "--size",
        "20ms",
        "--and",
        "gpu-launch:1ms",
    ]);
    let kinds: Vec<&str> = log.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["gpu-neighbour", "gpu-launch", "gpu-neighbour", "gpu-launch"]);
    log.iter().for_each(check);
}

/// Processes with this word in their environment.
fn marked(word: &str) -> Vec<PathBuf> {
    let entry = format!("{MARK}={word}");
    let is_ours =
        |environment: &[u8]| environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes());
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten().map(|entry| entry.path());
    processes.filter(|process| fs::read(process.join("environ")).is_ok_and(|found| is_ours(&found))).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Nobody could end the other process by its parent, since it has none.
#[rstest]
#[case::by_itself(false)]
#[case::killed(true)]
fn the_other_process_ends_with_the_run(#[case] is_killed: bool) {
    let (library, folder) = (stub(), tempfile::tempdir().unwrap());
    let (log, word) = (folder.path().join("truth.jsonl"), format!("{}-{is_killed}", std::process::id()));
    let requests = if is_killed { "1000000" } else { "4" };
    let arguments = ["gpu-neighbour", "--size", "1ms", "--every", "2", "--requests", requests, "--log"];
    let mut run = stall(&library, &[&arguments[..], &[log.to_str().unwrap()]].concat());
    let mut run = run.env(MARK, &word).stdout(Stdio::null()).spawn().unwrap();
    until("no request was hit", || fs::read_to_string(&log).is_ok_and(|text| text.contains('\n')));
    if is_killed {
        let others = marked(&word);
        let own = Path::new("/proc").join(run.id().to_string());
        let others: Vec<&PathBuf> = others.iter().filter(|process| **process != own).collect();
        assert_eq!(others.len(), 1, "{others:?}");
        assert_eq!(fs::read_to_string(others[0].join("comm")).unwrap(), "gpu-neighbour\n");
        let status = fs::read_to_string(others[0].join("status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
        assert_ne!(parent, run.id().to_string(), "an observer would take it for a part of the run");
        run.kill().unwrap();
    }
    assert_eq!(run.wait().unwrap().success(), !is_killed);
    until("the other process goes on", || marked(&word).is_empty());
}

fn refused(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    text(&output.stderr)
}

#[rstest]
#[case("gpu-copy")]
#[case("gpu-launch")]
#[case("gpu-neighbour")]
fn without_a_card_the_driver_says_so(#[case] kind: &str) {
    let output = stall(&stub(), &[kind]).env("STUB_CUDA_INIT", "100").output().unwrap();
    assert_eq!(
        refused(&output),
        "error: NVIDIA's driver refused a call: cuInit (CUDA_ERROR_NO_DEVICE)\n\n\
         hint: see whether `nvidia-smi` lists a GPU here, and what CUDA_VISIBLE_DEVICES says\n"
    );
}

#[test]
fn what_is_no_driver_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let said = refused(&stall(&with_library(&empty), &["gpu-copy"]).output().unwrap());
    assert!(said.starts_with("error: cannot load NVIDIA's driver: libcuda.so.1 ("), "{said}");
    assert!(said.contains("\n\nhint: install NVIDIA's driver"), "{said}");
    // The C library, which this process has too, has no function of CUDA's.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let library = library.into_iter().find(|path| path.ends_with("/libc.so.6")).expect("it is dynamic");
    let said = refused(&stall(&with_library(Path::new(library)), &["gpu-copy"]).output().unwrap());
    assert!(
        said.starts_with("error: NVIDIA's driver lacks a function: cuInit\n\nhint: a driver of"),
        "{said}"
    );
}

/// The other process by itself: a number when it has the card, two for each order, in their order.
#[test]
fn the_other_process_answers_with_times() {
    let library = stub();
    let mut other = command(&library, &["gpu-neighbour"]);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut orders = other.stdin.take().unwrap();
    std::io::Write::write_all(&mut orders, &[2 * MS, 5 * MS].map(u64::to_ne_bytes).concat()).unwrap();
    drop(orders);
    let output = other.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let (numbers, rest) = output.stdout.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect();
    assert!(numbers.len() == 5 && rest.is_empty() && numbers.is_sorted(), "{numbers:?}");
    assert!(numbers[2] - numbers[1] >= 2 * MS && numbers[4] - numbers[3] >= 5 * MS, "{numbers:?}");
    let failed = command(&library, &["gpu-neighbour"]).env("STUB_CUDA_INIT", "100").output().unwrap();
    assert!(refused(&failed).starts_with("error: NVIDIA's driver refused a call: cuInit ("));
}
