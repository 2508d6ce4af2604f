//! Native libraries by their functions: llama.cpp and ONNX Runtime from their packages, and stand-ins for
//! those that no package has. Each program reports when it called them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use guestscope::phase::{Ending, Request};
use guestscope_contract::Source;
use rstest::rstest;

use crate::{
    functions::{compiled, told, with},
    ground::{Ground, eventually, file, skipped},
    injected::python_with,
    running::{Done, Start},
};

/// One call in this many has the fault.
const EVERY: u64 = 10;
/// `y = x + x` of 8 floats, in ONNX's format.
const DOUBLE: &[u8] = b"\x08\x07\x12\x00:5\n\x0e\n\x01x\n\x01x\x12\x01y\"\x03Add\x12\x01gZ\x0f\n\x01x\x12\n\
    \n\x08\x08\x01\x12\x04\n\x02\x08\x08b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x08B\x04\n\x00\
    \x10\r";

/// A call, as the program reports it.
#[derive(Clone, Copy, Debug)]
struct Call {
    begin_ns: u64,
    end_ns: u64,
    /// Its number among its thread's calls.
    number: u64,
    thread: u32,
}

fn calls(said: &str) -> Vec<Call> {
    let one = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [begin_ns, end_ns, number, thread] = *numbers.as_slice() else { return None };
        Some(Call { begin_ns, end_ns, number, thread: thread as u32 })
    };
    said.lines().filter_map(one).collect()
}

/// Each call is one request of this name, inside the interval that the program measured. Returns the requests
/// with the numbers of their calls.
fn matched<'a>(requests: &[&'a Request], calls: &[Call]) -> Vec<(u64, &'a Request)> {
    assert_eq!(requests.len(), calls.len());
    let mut left: Vec<Call> = calls.to_vec();
    let one = |request: &&'a Request| {
        let root = request.root();
        assert_eq!((root.source, root.ending), (Source::Function, Ending::Ended));
        let end_ns = root.start_ns + root.duration_ns;
        let is_it = |call: &Call| {
            call.thread == root.thread.tid && call.begin_ns <= root.start_ns && end_ns <= call.end_ns
        };
        let at = left.iter().position(is_it);
        let call =
            left.swap_remove(at.unwrap_or_else(|| panic!("no call of the program is around {root:?}")));
        (call.number, *request)
    };
    requests.iter().map(one).collect()
}

/// How a program is observed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Run,
    Attach,
}

/// Observes a program that makes NOTE.ready and waits for NOTE.go; returns what it printed.
fn observed(ground: &Ground, by: By, phases: &[&str], program: impl Fn(Start) -> Start) -> (Done, String) {
    let said = ground.path("said");
    let stdout = || fs::File::create(&said).expect("the folder is ours");
    let ready = || eventually("the program is ready", || ground.path("note.ready").exists().then_some(()));
    let go = || fs::write(ground.path("note.go"), "").expect("the folder is ours");
    let done = match by {
        By::Run => {
            let run = program(with(ground.run(), phases).words(&["--sources", "none"])).spawn();
            ready();
            // The agent looks for new maps once a second.
            std::thread::sleep(Duration::from_secs(3));
            go();
            run.finish().expect(0)
        }
        By::Attach => {
            let subject = program(Start::new(&ground.path(""), Path::new("env"))).stdout(stdout()).spawn();
            ready();
            let start = ground.command(&["attach", "--json", "--output"]).word(ground.path("runs"));
            let run = with(start.words(&["--pid", &subject.pid().to_string()]), phases).spawn();
            eventually("attached", || run.stderr().contains("attached to ").then_some(()));
            go();
            let done = run.finish().expect(0);
            assert_eq!(subject.finish().code(), 0);
            done
        }
    };
    let text =
        if by == By::Run { done.stdout.clone() } else { fs::read_to_string(said).expect("it is there") };
    (done, text)
}

#[rstest]
#[case::run(By::Run, 1, "sleep")]
#[case::run_of_threads(By::Run, 3, "lock")]
#[case::attach(By::Attach, 1, "lock")]
#[case::attach_to_threads(By::Attach, 3, "sleep")]
fn each_decode_of_llama_cpp_is_a_phase_and_the_fault_within_is_named(
    #[case] by: By,
    #[case] threads: usize,
    #[case] fault: &str,
) {
    const CALLS: usize = 60;
    let test = format!("native::each_decode_of_llama_cpp_is_a_phase::{by:?}, {threads} threads");
    let (Some(ground), Some(python)) = (Ground::new(&test), python_with("llama_cpp", &test)) else { return };
    let note = ground.path("note");
    let (done, said) = observed(&ground, by, &["llama.cpp"], |start| {
        let start = start.program(&python).word(file("tests/data/servers/llama_calls.py")).word(&note);
        let start = start.words(&[&threads.to_string(), &CALLS.to_string()]).environment("FAULT", fault);
        start.environment("FAULT_MS", "150").environment("PYTHONDONTWRITEBYTECODE", "1")
    });
    let (seen, calls) = (done.seen(), calls(&said));
    assert_eq!(calls.len(), threads * CALLS);
    let (decodes, causes) = (matched(&seen.named("decode"), &calls), seen.causes());
    let hit = decodes.iter().filter(|(number, _)| number.is_multiple_of(EVERY));
    let named: Vec<&str> =
        hit.map(|(_, request)| causes.get(&request.root().id).map_or("nothing", String::as_str)).collect();
    let right = named.iter().filter(|cause| **cause == fault).count();
    assert_eq!(named.len(), threads * CALLS / EVERY as usize);
    assert!(right + (named.len() / 20).max(1) >= named.len(), "{named:?}");
}

/// The shared library in the Python package.
fn onnxruntime(test: &str) -> Option<PathBuf> {
    let python = python_with("onnxruntime", test)?;
    let folder = "import os, onnxruntime.capi as capi; print(os.path.dirname(capi.__file__))";
    let output = Command::new(python).args(["-c", folder]).output().expect("the interpreter runs");
    let folder = String::from_utf8(output.stdout).expect("a path");
    let mut files =
        fs::read_dir(folder.trim()).expect("it is there").map(|entry| entry.expect("a file").path());
    let is_it = |path: &PathBuf| path.to_string_lossy().contains("/libonnxruntime.so");
    let found = files.find(is_it);
    if found.is_none() {
        skipped("packages", &format!("{test}: this onnxruntime brings no library for programs in C"));
    }
    found
}

#[rstest]
#[case::run(By::Run, 0)]
#[case::run_of_threads(By::Run, 3)]
#[case::attach(By::Attach, 0)]
fn each_run_of_onnxruntimes_c_api_is_a_phase(#[case] by: By, #[case] threads: usize) {
    const RUNS: usize = 200;
    let test = format!("native::each_run_of_onnxruntimes_c_api_is_a_phase::{by:?}, {threads} threads");
    let (Some(ground), Some(library)) = (Ground::new(&test), onnxruntime(&test)) else { return };
    let words = ["-std=gnu11", "-ldl", "-lpthread"];
    let Some(program) = compiled(&ground, &test, ("ort.c", "ort"), &words) else { return };
    let (model, note) = (ground.path("model.onnx"), ground.path("note"));
    fs::write(&model, DOUBLE).expect("the folder is ours");
    let (done, said) = observed(&ground, by, &["onnxruntime"], |start| {
        let start = start.program(&program).word(&library).word(&model).word(&note);
        start.words(&[&RUNS.to_string(), &threads.to_string()])
    });
    assert_eq!(done.losses(), []);
    let (seen, calls) = (done.seen(), calls(&said));
    assert_eq!(calls.len(), RUNS * threads.max(1));
    matched(&seen.named("run"), &calls);
    assert_eq!(seen.named("load").len(), 1);
    let expected = format!("OrtGetApiBase()[0]()[9] in {}, {} calls", library.display(), calls.len());
    assert!(told(&done, "function", "run").contains(&expected), "{:?}", told(&done, "function", "run"));
}

/// Observes a program that calls functions from a stripped library's table; also returns the library.
fn tables(
    test: &str,
    name: &str,
    words: &[&str],
    phases: impl Fn(&Path) -> Vec<String>,
    more: &[&str],
) -> Option<(Ground, Done)> {
    let ground = Ground::new(test)?;
    let words = [&["-shared", "-fPIC", "-s"], words].concat();
    let library = compiled(&ground, test, ("tables.c", name), &words)?;
    let program = compiled(&ground, test, ("tables.c", "tables"), &["-DPROGRAM", "-ldl"])?;
    let phases = phases(&library);
    let phases: Vec<&str> = phases.iter().map(String::as_str).collect();
    let (done, _) = observed(&ground, By::Run, &phases, |start| {
        start.program(&program).word(&library).word(ground.path("note")).words(more)
    });
    assert_eq!(done.losses(), []);
    Some((ground, done))
}

#[rstest]
#[case::relocated(&[])]
#[case::packed(&["-Wl,-z,pack-relative-relocs"])]
fn functions_behind_tables_of_a_stripped_library_are_found(#[case] words: &[&str]) {
    let test = "native::functions_behind_tables_of_a_stripped_library_are_found";
    let phases = |library: &Path| {
        let library = library.display();
        vec![format!("work={library}:api()[0]()[2]:arg1"), "far=libtables.so:api()[0]()[3]".to_owned()]
    };
    let Some((_ground, done)) = tables(test, "libtables.so", words, phases, &["20"]) else { return };
    let seen = done.seen();
    let numbers: Vec<u64> = seen.named("work").iter().map(|request| request.root().request).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<u64>>());
    let far = told(&done, "function", "far");
    assert!(far[0].ends_with("has no table of 4 functions that api()[0] returns"), "{far:?}");
}

/// The functions of Triton's backend interface, in a library that has only their names.
#[test]
fn a_lookalike_of_a_triton_backend_executes_in_phases() {
    let test = "native::a_lookalike_of_a_triton_backend_executes_in_phases";
    let phases = |_: &Path| vec!["triton".to_owned()];
    let Some((_ground, done)) = tables(test, "libtriton_lookalike.so", &[], phases, &["20", "triton"]) else {
        return;
    };
    let seen = done.seen();
    assert_eq!((seen.named("load").len(), seen.named("execute").len(), seen.requests.len()), (1, 20, 21));
}
