//! Cost of one run of a BPF program, by the kernel's own statistics, and of one edge for the program that
//! fires it.
//!
//! The statistics add their own cost (two clock reads) to real and empty BPF programs alike.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    Bench, Row, json_of,
    ratio::{Ratio, median},
};

/// Hooks that the load below fires often enough for a mean.
const HOOKS: [&str; 3] = ["sched_switch", "sched_waking", "sched_wakeup"];
const VARIANTS: [(&str, &[&str]); 3] =
    [("empty", &["empty"]), ("untracked", &["ledger"]), ("tracked", &["ledger", "--track"])];
/// Round trips of the pipe: 0.2 s.
const TRIPS: &str = "100000";
const EDGES: &str = "200000";
/// Threads beside the one that fires edges; each edge sums their ledgers.
const BESIDE: u32 = 32;

/// ns per run of each program, tracked and untracked, against an empty program on the same hook.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let mut by_hook = vec![vec![Vec::new(); VARIANTS.len()]; HOOKS.len()];
    let turns: Vec<usize> = (0..VARIANTS.len()).collect();
    bench.alternate("cost of each program", &turns, |&variant| {
        let mut command = Command::new(&bench.hooks);
        command.args(VARIANTS[variant].1).args(["--stats", "--"]);
        command.args(["taskset", "-c", "1", "perf", "bench", "sched", "pipe", "-l", TRIPS]);
        let result = json_of(&mut command)?;
        for (hook, name) in HOOKS.iter().enumerate() {
            by_hook[hook][variant].push(ns_per_run(&result, name)?);
        }
        Ok(0.0)
    })?;
    let mut rows = Vec::new();
    for (hook, name) in HOOKS.iter().enumerate() {
        for (variant, (label, _)) in VARIANTS.iter().enumerate() {
            let ns = &by_hook[hook][variant];
            rows.push(Row {
                what: format!("{name}, one run, {label}"),
                measured: format!("{:.1} ns", median(ns)),
                ratio: if variant == 0 { None } else { Ratio::new(ns, &by_hook[hook][0]) },
                against: "of empty",
                budget: if (*name, *label) == ("sched_switch", "tracked") { "<= 2.5" } else { "" },
            });
        }
    }
    Ok(rows)
}

fn ns_per_run(result: &Value, program: &str) -> Result<f64> {
    let cost = &result["programs"][program];
    let number = |index: usize| cost[index].as_f64().with_context(|| format!("no statistics of `{program}`"));
    Ok(number(1)? / number(0)?.max(1.0))
}

/// ns per edge as the program sees it: without a probe, with a bare counting one, with ours, and with ours
/// beside others.
pub(crate) fn edge_rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let marker = bench.edges.as_os_str();
    let (ours, beside) = (["ledger", "--track"], BESIDE.to_string());
    let variants: [(&str, &[&str], &str); 4] = [
        ("no probe", &["none"], "0"),
        ("bare counting uprobe", &["empty"], "0"),
        ("agent", &ours, "0"),
        ("agent, 32 threads beside", &ours, &beside),
    ];
    let file = std::env::temp_dir().join(format!("guestscope-bench-{}", std::process::id()));
    let measured = bench.alternate("cost of an edge", &variants, |(_, words, threads)| {
        let mut command = Command::new(&bench.hooks);
        command.args(*words);
        command.arg("--marker").arg(marker).arg("--").arg(marker).arg(EDGES).arg(&file).arg(threads);
        json_of(&mut command)?;
        let text = std::fs::read_to_string(&file).context("the edges' program wrote no result")?;
        text.trim().parse().context("the edges' program wrote no number")
    })?;
    // A result file that stays does no harm.
    let _ = std::fs::remove_file(&file);
    let row = |index: usize| Row {
        what: format!("marker edge, {}", variants[index].0),
        measured: format!("{:.1} ns", median(&measured[index])),
        ratio: if index == 2 { Ratio::new(&measured[2], &measured[1]) } else { None },
        against: "of bare",
        budget: if index == 2 { "<= 1.25 or <= +80 ns" } else { "" },
    };
    let mut rows: Vec<Row> = (0..variants.len()).map(row).collect();
    let each: Vec<f64> = measured[3]
        .iter()
        .zip(&measured[2])
        .map(|(with, without)| (with - without) / f64::from(BESIDE))
        .collect();
    let measured = format!("+{:.1} ns", median(&each));
    rows.push(Row::alone("marker edge, each further thread", measured, "<= +8 ns"));
    Ok(rows)
}
