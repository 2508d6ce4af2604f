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
mod programs;
mod python;
mod pytorch;
mod ratio;
mod resident;
mod row;
mod share;
mod soak;
mod storm;
mod turns;
mod workload;

use std::{fs, io::Write as _, path::PathBuf};

use anyhow::Result;
use clap::ValueEnum as _;
use serde_json::{Value, json};

use self::{
    programs::{Bench, json_of},
    row::Row,
};
pub(crate) use self::{
    programs::{built, two_results},
    soak::Options as Soak,
};
use crate::{Xtask, apt, artifact, command, kernel, libtorch::Libtorch, toolchain::Toolchain};

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
    /// A resident agent over --minutes beside programs that come and go: its CPU time, memory, disk and
    /// losses, only if it is named, and alone
    Resident,
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
            Self::Soak | Self::Resident => Ok(Vec::new()),
        }
    }
}

/// The verb.
pub(crate) fn verb(xtask: &mut Xtask, parts: &[Part], rounds: usize, soak: Soak) -> Result<bool> {
    if parts == [Part::Soak] {
        return soak::verb(xtask, soak);
    }
    if parts == [Part::Resident] {
        return resident::verb(xtask, soak);
    }
    let toolchain = Toolchain::ensure(xtask)?;
    let libtorch = Libtorch::ensure(xtask)?;
    let all = Part::value_variants()
        .iter()
        .copied()
        .filter(|part| !matches!(part, Part::Python | Part::Causes | Part::Pytorch))
        .filter(|part| !matches!(part, Part::Soak | Part::Resident));
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

fn examples(xtask: &Xtask, toolchain: &Toolchain) -> Result<[PathBuf; EXAMPLES.len()]> {
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--release", "--locked", "--package", artifact::AGENT]);
    build.args(EXAMPLES.iter().flat_map(|name| ["--example", name]));
    toolchain.apply(&mut build);
    artifact::cargo(xtask, "programs to measure with", "build-bench", &mut build)?;
    let folder = xtask.workspace.target.join("release/examples");
    Ok(EXAMPLES.map(|name| folder.join(name)))
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
