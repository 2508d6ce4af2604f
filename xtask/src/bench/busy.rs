//! The cost of observing a loop that never leaves its CPU. It has hardly any switches, so the cost is the
//! ticks of the sampler's clock, which are expensive under a hypervisor; perf's own clock, which ticks as
//! often, is measured beside it.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{
    Bench, Row,
    ratio::{Ratio, median},
};
use crate::command;

/// Ticks per second of both clocks: `guestscope_contract::SAMPLES_PER_S`.
const SAMPLES_PER_S: &str = "499";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observer {
    Nothing,
    Unsampled,
    Tracked,
    Perf,
}

/// Duration of the loop, and the cost of one tick.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let mut observers = vec![Observer::Nothing, Observer::Unsampled, Observer::Tracked];
    if command::find("perf").is_some() {
        observers.push(Observer::Perf);
    }
    let measured = bench.alternate("a loop on one CPU", &observers, |&observer| loop_s(bench, observer))?;
    let row = |index: usize| {
        let (label, budget) = match observers[index] {
            Observer::Nothing => ("nothing", ""),
            Observer::Unsampled => ("agent, tracked, no sampler", ""),
            Observer::Tracked => ("agent, tracked", "<= 1.01"),
            Observer::Perf => ("perf record -e cpu-clock", ""),
        };
        Row {
            what: format!("loop on one CPU, {label}"),
            measured: format!("{:.1} ms", median(&measured[index]) * 1e3),
            ratio: (index > 0).then(|| Ratio::new(&measured[index], &measured[0])).flatten(),
            against: "of nothing's",
            budget,
        }
    };
    let mut rows: Vec<Row> = (0..observers.len()).map(row).collect();
    let samples_per_s: f64 = SAMPLES_PER_S.parse()?;
    let each_us = |with: &[f64], without: &[f64]| {
        let ticks = median(without) * samples_per_s;
        format!("{:.1} us", (median(with) - median(without)) / ticks * 1e6)
    };
    rows.push(Row::alone("one tick of the sampler", each_us(&measured[2], &measured[1]), ""));
    if let Some(perf) = measured.get(3) {
        rows.push(Row::alone("one tick of perf's", each_us(perf, &measured[0]), ""));
    }
    Ok(rows)
}

fn loop_s(bench: &Bench<'_>, observer: Observer) -> Result<f64> {
    let mut run = match observer {
        Observer::Nothing => held(bench, &["none"]),
        Observer::Unsampled => held(bench, &["ledger", "--track", "--unsampled"]),
        Observer::Tracked => held(bench, &["ledger", "--track"]),
        Observer::Perf => {
            let mut perf = Command::new("perf");
            perf.args(["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-o"]);
            perf.arg(bench.folder()?.join("busy.data")).arg("--");
            perf
        }
    };
    run.args(["taskset", "-c", "1"]).arg(&bench.busy);
    let output = run.output().with_context(|| format!("could not start: {run:?}"))?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let seconds: Vec<f64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    if seconds.is_empty() {
        bail!("no loops: {}", command::tail(&text));
    }
    Ok(median(&seconds))
}

fn held(bench: &Bench<'_>, words: &[&str]) -> Command {
    let mut hooks = Command::new(&bench.hooks);
    hooks.args(words).arg("--");
    hooks
}
