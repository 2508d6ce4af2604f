//! The verb `bench`: the cost of observing, measured with and without it in one run, as ratios with their
//! spread.
//!
//! Prints a table and writes the same numbers to target/bench/bench.json. It asserts nothing about time:
//! machines are noisy, and people judge the numbers. Rounds of all variants alternate, so that drift of the
//! machine affects each alike.

mod busy;
mod causes;
mod compared;
mod explained;
mod hooks;
mod inside;
mod neighbours;
mod pipe;
mod python;
mod pytorch;
mod ratio;
mod share;
mod soak;
mod storm;
mod turns;
mod workload;

use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use serde_json::{Value, json};

use self::ratio::Ratio;
pub(crate) use self::soak::Options as Soak;
use crate::{
    Xtask, apt, artifact, command, failure::failure, kernel, libtorch::Libtorch, toolchain::Toolchain,
};

/// Other programs in the comparison, and the Debian packages that have them.
const PEERS: [(&str, &[&str]); 5] = [
    ("bpftool", &["bpftool"]),
    ("perf", &["linux-perf"]),
    ("taskset", &["util-linux"]),
    ("bpftrace", &["bpftrace"]),
    ("runqlat", &["libbpf-tools"]),
];

/// Our examples that benchmarks run.
const EXAMPLES: [&str; 5] = ["hooks", "edges", "storm", "busy", "made_folders"];

/// One line of the table.
pub(crate) struct Row {
    /// Name of the measurement.
    pub(crate) what: String,
    /// The result, with its unit.
    pub(crate) measured: String,
    /// Ratio to what it is compared with.
    pub(crate) ratio: Option<Ratio>,
    /// What it is compared with.
    pub(crate) against: &'static str,
    /// The budget.
    pub(crate) budget: &'static str,
}

/// Programs and settings of a benchmark.
pub(crate) struct Bench<'a> {
    xtask: &'a Xtask,
    /// The static agent.
    agent: PathBuf,
    /// `guestscope-workloads`, with libtorch.
    workloads: PathBuf,
    /// The example that keeps BPF programs attached while a command runs.
    hooks: PathBuf,
    /// The example that fires edges.
    edges: PathBuf,
    /// The example that makes phases and switches at given rates.
    storm: PathBuf,
    /// The example that repeats the same arithmetic.
    busy: PathBuf,
    /// The example that makes run folders.
    made_folders: PathBuf,
    /// Rounds of each variant.
    rounds: usize,
}

/// A benchmark that can be run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// ns of one run of each program
    Hooks,
    /// Round trips of a pipe, beside other tools
    Pipe,
    /// A loop that never leaves its CPU, beside perf
    Busy,
    /// What an edge costs the program
    Edges,
    /// Losses at 10,000 phases and 50,000 switches a second
    Storm,
    /// What lies inside `cpu`, beside perf's samples
    Inside,
    /// Throughput of ResNet-50, and what the agent takes
    Workload,
    /// `compare` and `report` of many runs
    Compare,
    /// `explain` of a million requests
    Explain,
    /// Programs in Python that nobody edited, with and without their automatic marks (2 GB to download), only
    /// if it is named
    Python,
    /// What `compare` names of ResNet-50 beside busy loops and bursts, and of one that gives its memory back
    /// (15 minutes), only if it is named
    Causes,
    /// Our workloads beside PyTorch in Python (5 GB to download), only if it is named
    Pytorch,
    /// Losses and memory over --minutes beside a collector that goes away and hostile neighbours, only if it
    /// is named, and alone
    Soak,
}

impl Part {
    fn rows(self, bench: &Bench<'_>) -> Result<Vec<Row>> {
        match self {
            Self::Hooks => hooks::rows(bench),
            Self::Pipe => pipe::rows(bench),
            Self::Busy => busy::rows(bench),
            Self::Edges => hooks::edge_rows(bench),
            Self::Storm => storm::rows(bench),
            Self::Inside => inside::rows(bench),
            Self::Workload => workload::rows(bench),
            Self::Compare => compared::rows(bench),
            Self::Explain => explained::rows(bench),
            Self::Python => python::rows(bench),
            Self::Causes => causes::rows(bench),
            Self::Pytorch => pytorch::rows(bench),
            // It prints and judges by itself.
            Self::Soak => Ok(Vec::new()),
        }
    }
}

/// The verb.
pub(crate) fn verb(xtask: &mut Xtask, parts: &[Part], rounds: usize, soak: Soak) -> Result<bool> {
    if parts == [Part::Soak] {
        return soak::verb(xtask, soak);
    }
    let toolchain = Toolchain::ensure(xtask)?;
    let libtorch = Libtorch::ensure(xtask)?;
    let all = Part::value_variants()
        .iter()
        .copied()
        .filter(|part| !matches!(part, Part::Python | Part::Causes | Part::Pytorch | Part::Soak));
    let parts = if parts.is_empty() { all.collect() } else { parts.to_vec() };
    let workloads = match built("GUESTSCOPE_WORKLOADS_BIN")? {
        Some(workloads) => workloads,
        None => artifact::workloads(xtask, Some(&libtorch))?,
    };
    let ([hooks, edges, storm, busy, made_folders], agent) = if parts == [Part::Pytorch] {
        // These parts observe nothing.
        Default::default()
    } else {
        kernel::ensure(xtask);
        for (program, packages) in PEERS {
            if command::find(program).is_none() {
                apt::want(xtask, packages, &format!("no {program} to measure against"));
            }
        }
        (examples(xtask, &toolchain)?, artifact::agent(xtask, &toolchain)?)
    };
    let bench = Bench { xtask, agent, workloads, hooks, edges, storm, busy, made_folders, rounds };
    let mut rows = Vec::new();
    for part in parts {
        rows.extend(part.rows(&bench)?);
    }
    tell(&bench, &rows)?;
    Ok(true)
}

/// A built program that an environment variable names, to measure that one.
pub(crate) fn built(variable: &str) -> Result<Option<PathBuf>> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if path.is_file() {
        return Ok(Some(path));
    }
    let (what, hint) = (path.display(), format!("let {variable} name a program, or unset it"));
    Err(failure(format!("no such program: {what}"), hint))
}

fn examples(xtask: &Xtask, toolchain: &Toolchain) -> Result<[PathBuf; EXAMPLES.len()]> {
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--release", "--locked", "--package", artifact::AGENT]);
    build.args(EXAMPLES.iter().flat_map(|name| ["--example", name]));
    toolchain.apply(&mut build);
    artifact::cargo(xtask, "programs to measure with", "build-bench", &mut build)?;
    let folder = xtask.workspace.target.join("release/examples");
    Ok(EXAMPLES.map(|name| folder.join(name)))
}

/// Runs a command that prints one line of JSON last.
fn json_of(command: &mut Command) -> Result<Value> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("could not start: {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rfind(|line| line.starts_with('{'));
    let line = line.with_context(|| {
        format!("no result: {name}: {}", command::tail(&String::from_utf8_lossy(&output.stderr)))
    })?;
    serde_json::from_str(line).with_context(|| format!("not understood: {name}: {line}"))
}

/// The JSON of a program and of the agent that observed it, both from the same standard output.
pub(crate) fn two_results(text: &str) -> Result<(Value, Value)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let program = values.next().context("no result of the program")??;
    let agent = values.next().context("no summary of the agent")??;
    Ok((program, agent))
}

impl Bench<'_> {
    /// The folder for all files of a benchmark.
    fn folder(&self) -> Result<PathBuf> {
        let folder = self.xtask.workspace.target.join("bench");
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The agent, with a JSON summary, as the command that runs this program.
    fn observe(&self, name: &str, program: &Path) -> Result<Command> {
        Ok(self.observe_into(&self.folder()?.join("runs"), name, program))
    }

    /// The same with its run folder in this folder.
    fn observe_into(&self, output: &Path, name: &str, program: &Path) -> Command {
        let mut command = Command::new(&self.agent);
        command.args(["run", "--json", "--name", name, "--output"]).arg(output).arg("--").arg(program);
        command
    }

    /// `rounds` measurements of each variant, all variants in each round, whose order rotates.
    fn alternate<T>(
        &self,
        label: &str,
        variants: &[T],
        mut measure: impl FnMut(&T) -> Result<f64>,
    ) -> Result<Vec<Vec<f64>>> {
        let step = self.xtask.progress.step(label);
        let mut measured = vec![Vec::new(); variants.len()];
        for round in 0..self.rounds {
            step.update(&format!("round {} of {}", round + 1, self.rounds));
            for turn in 0..variants.len() {
                let variant = (turn + round) % variants.len();
                measured[variant].push(measure(&variants[variant])?);
            }
        }
        step.done(format!("{} rounds", self.rounds));
        Ok(measured)
    }
}

fn tell(bench: &Bench<'_>, rows: &[Row]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let width = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let (what, measured) = (width(|row| row.what.len()), width(|row| row.measured.len()));
    writeln!(out, "\n{:what$}  {:>measured$}  {:24}  budget", "", "measured", "ratio [95 % interval]")?;
    for row in rows {
        let ratio = row.ratio.as_ref().map_or_else(String::new, |ratio| format!("{ratio} {}", row.against));
        writeln!(out, "{:what$}  {:>measured$}  {ratio:<40}  {}", row.what, row.measured, row.budget)?;
    }
    let file = bench.folder()?.join("bench.json");
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    fs::write(&file, serde_json::to_string_pretty(&json!({ "rows": rows }))? + "\n")?;
    writeln!(out, "\nwritten to {}", file.display())?;
    Ok(())
}

impl Row {
    /// A row without a comparison.
    fn alone(what: impl Into<String>, measured: String, budget: &'static str) -> Self {
        Self { what: what.into(), measured, ratio: None, against: "", budget }
    }

    fn json(&self) -> Value {
        let ratio = self.ratio.as_ref().map(|ratio| {
            json!({ "value": ratio.value, "low": ratio.low, "high": ratio.high, "of": self.against,
                    "rounds": ratio.rounds })
        });
        json!({ "what": self.what, "measured": self.measured, "ratio": ratio, "budget": self.budget })
    }
}
