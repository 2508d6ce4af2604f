//! Share of all CPUs' time that observing takes while ResNet-50 keeps them busy: the BPF programs, by the
//! kernel's own statistics, and the agent. Noise hides a hundredth of throughput, but does not affect these
//! sums.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Bench, Row, two_results};

/// Requests: up to a minute, so that the agent's start weighs little.
const REQUESTS: &str = "400";
/// Interval between readings of the BPF programs' statistics, which vanish with the agent.
const LOOK: Duration = Duration::from_millis(200);
/// Number of BPF programs that are listed by name.
const LARGEST: usize = 3;

/// One row.
pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let step = bench.xtask.progress.step("what observing takes of ResNet-50's CPUs");
    let others: BTreeSet<u64> = programs()?.into_iter().map(|program| program.id).collect();
    let file = bench.folder()?.join("share.json");
    let mut observed = bench.observe("share", &bench.workloads)?;
    observed.args(["infer", "ic", "--requests", REQUESTS, "--json"]);
    // The example switches the kernel's statistics on while the command runs; the command's output is on
    // standard error.
    let mut command = Command::new(&bench.hooks);
    command.args(["none", "--stats", "--"]).arg(observed.get_program()).args(observed.get_args());
    command.stdout(Stdio::null()).stderr(File::create(&file)?);
    let mut child = command.spawn().context("could not start the example `hooks`")?;
    let taken = watch(&mut child, &others)?;
    ensure!(child.wait()?.success(), "the observed run failed");
    let (_, summary) = two_results(&fs::read_to_string(&file)?)?;
    let number = |pointer: &str| {
        let found = summary.pointer(pointer).and_then(Value::as_f64);
        found.with_context(|| format!("the agent's summary has no {pointer}"))
    };
    let all_ns = number("/agent/wall_ns")? * thread::available_parallelism()?.get() as f64;
    let percent = |ns: f64| 100.0 * ns / all_ns;
    let (programs, agent) = (percent(taken.values().sum::<u64>() as f64), percent(number("/agent/cpu_ns")?));
    let mut by_size: Vec<(&String, &u64)> = taken.iter().collect();
    by_size.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let largest = by_size.into_iter().take(LARGEST);
    let largest: Vec<String> =
        largest.map(|(name, ns)| format!("{name} {:.3} %", percent(*ns as f64))).collect();
    step.done(largest.join(", "));
    Ok(vec![Row::alone(
        "ResNet-50, of all CPUs' time: programs in the kernel, the agent",
        format!("{programs:.2} % and {agent:.2} %"),
        "<= 1 % together",
    )])
}

/// One BPF program, as bpftool lists it.
struct Program {
    id: u64,
    name: String,
    run_time_ns: u64,
}

fn programs() -> Result<Vec<Program>> {
    let output = Command::new("bpftool").args(["-j", "prog", "show"]).output();
    let output = output.context("could not start `bpftool`")?;
    let all: Vec<Value> =
        serde_json::from_slice(&output.stdout).context("the output of `bpftool` is not as expected")?;
    Ok(all
        .iter()
        .filter_map(|program| {
            Some(Program {
                id: program["id"].as_u64()?,
                name: program["name"].as_str().unwrap_or_default().to_owned(),
                run_time_ns: program["run_time_ns"].as_u64().unwrap_or(0),
            })
        })
        .collect())
}

/// Run time by name, ns, of the BPF programs that this child loaded, as last seen.
fn watch(child: &mut Child, others: &BTreeSet<u64>) -> Result<BTreeMap<String, u64>> {
    let mut last: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    while child.try_wait()?.is_none() {
        for program in programs()?.into_iter().filter(|program| !others.contains(&program.id)) {
            last.insert(program.id, (program.name, program.run_time_ns));
        }
        thread::sleep(LOOK);
    }
    ensure!(!last.is_empty(), "no programs were seen in the kernel");
    let mut taken = BTreeMap::new();
    for (name, ns) in last.into_values() {
        *taken.entry(name).or_default() += ns;
    }
    Ok(taken)
}
