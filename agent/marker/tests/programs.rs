//! Whole programs, unmodified: what their edges say is what the programs themselves say they did. C, Python
//! and tokio, through the header, the shared library, the Python module and the rendezvous, under the tracer
//! in tests/tracer.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod library;
mod tracer;
mod wire;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    process::Command,
};

use guestscope_marker::token;
use rstest::rstest;
use serde_json::Value;
use tracer::{Trace, trace};
use wire::Edge;

const REQUESTS: u64 = 6;

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}

fn python(source: &str) -> Option<Command> {
    Command::new("python3").arg("--version").output().ok().filter(|output| output.status.success())?;
    let mut python = Command::new("python3");
    python.arg(library::package().join("tests/programs").join(source));
    python.env("GUESTSCOPE_LIBRARY", library::shared_library()).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

fn asyncio() -> Option<Command> {
    python("interleaved_asyncio.py")
}

fn embed() -> Option<Command> {
    library::c_program("embed.c").map(Command::new)
}

/// The example's binary lies beside this test's directory: cargo builds examples along with tests.
fn tokio_example() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(std::path::Path::parent).expect("target/PROFILE/deps/TEST");
    profile.join("examples/interleaved_tokio")
}

fn tokio() -> Option<Command> {
    Some(tokio_example()).filter(|path| path.exists()).map(Command::new)
}

/// What the edges say about one phase.
#[derive(Debug, Default)]
struct Seen {
    name: String,
    root: u64,
    number: u64,
    /// Whether the phase is on a thread, and on which; edges come in the order in which they were fired.
    on: Option<i32>,
    moves: usize,
    ended: bool,
    /// Whether it began where the phase before it ended, or where its request began.
    joins: bool,
}

/// The phase is on this thread, and its innermost; it is not any more.
fn leave(phases: &mut BTreeMap<u64, Seen>, stack: &mut Vec<u64>, token: u64, edge: &Edge) {
    let phase = phases.get_mut(&token).expect("it began");
    assert_eq!(phase.on.take(), Some(edge.thread), "{} is on the thread it leaves", phase.name);
    assert_eq!(stack.pop(), Some(token), "the innermost ends or leaves first");
}

fn end(phases: &mut BTreeMap<u64, Seen>, stack: &mut Vec<u64>, token: u64, edge: &Edge) {
    leave(phases, stack, token, edge);
    phases.get_mut(&token).expect("it began").ended = true;
}

/// Follows every token through its edges: each edge must be possible after those before it.
fn follow(edges: &[Edge]) -> BTreeMap<u64, Seen> {
    let mut phases: BTreeMap<u64, Seen> = BTreeMap::new();
    let mut innermost: HashMap<i32, Vec<u64>> = HashMap::new();
    for edge in edges {
        let stack = innermost.entry(edge.thread).or_default();
        let token = match (edge.operation(), edge.token()) {
            (3, 0) => *stack.last().expect("something is open on this thread"),
            (_, token) => token,
        };
        match edge.operation() {
            1 | 2 => {
                let number = edge.arguments[4];
                let seen =
                    Seen { name: edge.name.clone(), root: token::root(token), number, ..Seen::default() };
                assert!(phases.insert(token, seen).is_none(), "tokens are unique");
                let joined = if edge.operation() == 1 { edge.arguments[5] } else { 0 };
                if joined != 0 && !token::is_root(joined) {
                    end(&mut phases, stack, joined, edge);
                }
                stack.push(token);
                let phase = phases.get_mut(&token).expect("inserted above");
                (phase.on, phase.joins) = (Some(edge.thread), joined != 0);
            }
            3 => {
                let inner = edge.arguments[3];
                if inner != 0 {
                    end(&mut phases, stack, inner, edge);
                }
                end(&mut phases, stack, token, edge);
            }
            4 => leave(&mut phases, stack, token, edge),
            5 => {
                let phase = phases.get_mut(&token).expect("it began");
                assert!(phase.on.is_none() && !phase.ended, "{} was left", phase.name);
                phase.on = Some(edge.thread);
                phase.moves += 1;
                stack.push(token);
            }
            6..=8 => {}
            other => panic!("unknown operation: {other}"),
        }
    }
    phases
}

#[rstest]
#[case::asyncio("asyncio", asyncio())]
#[case::embed("embed", embed())]
#[case::tokio("tokio", tokio())]
fn edges_say_what_the_program_says(#[case] name: &str, #[case] command: Option<Command>) {
    let Some(mut command) = command else { return skipped(name, "no interpreter, compiler or example") };
    command.args(["--requests", &REQUESTS.to_string(), "--work-ms", "2", "--await-ms", "10"]);
    let Trace { edges, output, greetings } = match trace(&mut command) {
        Ok(trace) => trace,
        Err(reason) => return skipped(name, &reason),
    };
    assert_eq!(greetings, 1);
    let phases = follow(&edges);
    assert!(phases.values().all(|phase| phase.ended && phase.on.is_none()));

    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len() as u64, REQUESTS);
    for line in &lines {
        let number = line["request"].as_u64().expect("a number");
        let of_number = |phase: &&Seen| phase.name == "request" && phase.number == number;
        let request = phases.values().find(of_number).expect("the request has edges");
        let names: Vec<&str> = phases
            .values()
            .filter(|phase| phase.root == request.root && phase.name != "request")
            .map(|phase| phase.name.as_str())
            .collect();
        let mut expected: Vec<&str> =
            line["phases"].as_array().expect("phases").iter().map(phase_name).collect();
        expected.sort_unstable();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        // Suspended twice, in fetch and in finish; a tokio task may be polled more often than it is woken for
        // a reason.
        assert!(request.moves >= 2, "request {number} was entered {} times", request.moves);
        // In requests that join no trace, `embed` joins the phases.
        let joining = phases.values().filter(|phase| phase.root == request.root && phase.joins).count();
        assert_eq!(joining, if line["joined"] == false { names.len() } else { 0 });
        assert_identity(&edges, request.root, line);
    }
    assert_numbers(&edges);
    assert_eq!(
        edges.iter().filter(|edge| edge.operation() == 8 && edge.name == "started").count() as u64,
        REQUESTS
    );
}

fn phase_name(phase: &Value) -> &str {
    phase["name"].as_str().expect("a phase has a name")
}

/// The header that the program printed is what the IDENTITY edge of the request told the agent.
fn assert_identity(edges: &[Edge], root: u64, line: &Value) {
    let told =
        edges.iter().find(|edge| edge.operation() == 7 && edge.token() == root).expect("a header was made");
    let [_, _, high, low, span, _] = told.arguments;
    assert_eq!(line["traceparent"], format!("00-{high:016x}{low:016x}-{span:016x}-01"));
    if line["joined"] == true {
        let joined =
            edges.iter().find(|edge| edge.operation() == 6 && edge.token() == root).expect("it joined");
        assert_eq!(
            joined.arguments[2..5],
            [0x4bf9_2f35_77b3_4da6, 0xa3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7]
        );
        assert_eq!((high, low), (joined.arguments[2], joined.arguments[3]));
    }
}

/// Edges of a thread are numbered from 1 without a gap: the rendezvous kept the program until the tracer was
/// there.
fn assert_numbers(edges: &[Edge]) {
    let mut last: HashMap<i32, u64> = HashMap::new();
    for edge in edges {
        let last = last.entry(edge.thread).or_default();
        assert_eq!(edge.number(), *last + 1, "thread {}", edge.thread);
        *last = edge.number();
    }
}
