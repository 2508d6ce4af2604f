//! What a run of a situation left: the summary, the explanation as text and as JSON, and the program's facts.

use std::{collections::BTreeMap, path::Path, process::Stdio};

use serde_json::Value;

use super::kinds::Kind;
use crate::{
    folder::only_folder,
    ground::{Ground, eventually, example, file},
    running::{Running, Start},
};

/// Requests, and one of how many is hit: six of them, which are less than a tenth.
const REQUESTS: [&str; 2] = ["72", "12"];

/// Texts with single spaces instead of lines.
pub(super) struct Told {
    /// What `run` prints.
    pub(super) summary: String,
    /// What `explain` prints.
    pub(super) explain: String,
    /// Who is to blame, as `explain` says it: over all slow requests, by a limit, and of the slowest one.
    pub(super) blamed: String,
    /// The first row of the table of the tail.
    pub(super) first_row: String,
    /// `explain --json`.
    pub(super) json: Value,
    facts: BTreeMap<String, String>,
}

impl Told {
    /// Runs the program under the agent, with the fault or without.
    pub(super) fn of(
        test: &str,
        python: &Path,
        kind: &Kind,
        (ms, seed): (u32, u32),
        is_faulty: bool,
    ) -> Option<Self> {
        let ground = Ground::new(test)?;
        let beside = kind.is_beside.then(|| stranger(&ground, python, kind.name));
        let run = ground.command(&["run", "--output"]).word(ground.path("runs")).words(kind.options);
        let run =
            run.environment("E2E_BOOK", ground.path("book")).environment("PYTHONDONTWRITEBYTECODE", "1");
        let run =
            if kind.has_driver { with_driver(run, &ground, kind.card[usize::from(!is_faulty)]) } else { run };
        let run = run.program(python).word(program());
        let words =
            [kind.name, &ms.to_string(), &seed.to_string(), if is_faulty { "fault" } else { "control" }];
        let done = run.words(&words).words(&REQUESTS).finish().expect(0);
        let mut facts = BTreeMap::new();
        for name in ["book", "beside.json"] {
            facts.extend(facts_of(&ground.path(name)));
        }
        drop(beside);
        let folder = only_folder(&ground.path("runs"));
        let explain = |words: &[&str]| {
            let start = ground.command(&["explain"]).words(words).word(&folder);
            let done = start.finish();
            // Where no request counts there is nothing to explain, and it says why.
            if done.code() == 0 { done.stdout } else { done.stdout + &done.stderr }
        };
        let (text, json) = (explain(&[]), explain(&["--json", "--slowest", "10"]));
        Some(Self {
            summary: flat(done.stdout.lines()),
            blamed: ["who  ", "limit  ", "request #"].map(|begin| block(&text, begin)).join(" "),
            first_row: block(&text, "over typical, mean ").split(" all of it").next()?.to_owned(),
            explain: flat(text.lines()),
            json: serde_json::from_str(&json).unwrap_or_default(),
            facts,
        })
    }

    /// The pattern with the program's facts in the places of their names.
    pub(super) fn filled(&self, pattern: &str) -> String {
        self.facts
            .iter()
            .fold(pattern.to_owned(), |text, (name, fact)| text.replace(&format!("{{{name}}}"), fact))
    }

    /// The group of requests that the summary begins with.
    pub(super) fn group(&self) -> &Value {
        &self.json["groups"][0]
    }
}

/// With the stub of CUDA under the name of the library, and that of NVML: so there is a graphics processor.
fn with_driver(run: Start, ground: &Ground, card: &str) -> Start {
    let library = ground.path("libcuda.so.1");
    std::fs::copy(example("libcuda_stub.so"), &library).expect("the place is ours");
    let run = if card.is_empty() { run } else { run.environment("GUESTSCOPE_NVML_STUB", card) };
    run.environment("E2E_CUDA", library).environment("GUESTSCOPE_NVML", example("libnvidia_ml_stub.so"))
}

fn program() -> std::path::PathBuf {
    file("tests/data/e2e/situations/situations.py")
}

/// A process that the observed program did not start; it listens when this returns.
fn stranger(ground: &Ground, python: &Path, kind: &str) -> Running {
    let start = Start::new(&ground.path(""), python).word(program()).words(&["beside", kind]);
    let running = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    eventually("the stranger listens", || ground.path("beside.json").exists().then_some(()));
    running
}

fn facts_of(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let text = |fact: Value| fact.as_str().map_or_else(|| fact.to_string(), str::to_owned);
    all.into_iter().map(|(name, fact)| (name, text(fact))).collect()
}

fn flat<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The line that begins so, with those that are indented below it, or stand below a table's head.
fn block(text: &str, begin: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let head = lines.next().unwrap_or_default();
    let is_table = begin.starts_with("over");
    let rest = lines.take_while(|line| if is_table { !line.is_empty() } else { line.starts_with(' ') });
    let rest: Vec<&str> = rest.collect();
    if is_table { flat(rest.into_iter().take(1)) } else { flat(std::iter::once(head).chain(rest)) }
}
