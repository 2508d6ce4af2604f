//! ResNet-50 with and without the agent, in alternating pairs, and the agent's own memory and time.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    Bench, Row, json_of,
    ratio::{Ratio, median},
    share, two_results,
};

/// Requests per run: 4 s each.
const REQUESTS: &str = "100";

/// Ratio of the throughput with the agent to that without it, and the agent's size and start.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let result = bench.folder()?.join("runs.json");
    let mut summaries = Vec::new();
    let measured = bench.alternate("ResNet-50 with and without", &[false, true], |&observed| {
        let mut command =
            if observed { bench.observe("bench", &bench.workloads)? } else { Command::new(&bench.workloads) };
        command.args(["infer", "ic", "--requests", REQUESTS, "--json"]);
        let outcome = if observed {
            // The workload's line comes first, the agent's summary last.
            let output = command.output().context("could not start the agent")?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            std::fs::write(&result, &text)?;
            let (workload, summary) = two_results(&text)?;
            summaries.push(summary);
            workload
        } else {
            json_of(&mut command)?
        };
        outcome["requests_per_s"].as_f64().context("the workload gave no throughput")
    })?;
    let mut rows = vec![Row {
        what: "ResNet-50, requests per second, observed".to_owned(),
        measured: format!("{:.2} against {:.2}", median(&measured[1]), median(&measured[0])),
        ratio: Ratio::new(&measured[1], &measured[0]),
        against: "of unobserved",
        budget: ">= 0.99",
    }];
    rows.extend(share::rows(bench)?);
    rows.extend(agent_rows(&bench.agent, &summaries)?);
    Ok(rows)
}

fn agent_rows(agent: &Path, summaries: &[Value]) -> Result<Vec<Row>> {
    let all = |pointer: &str| -> Vec<f64> {
        summaries.iter().filter_map(|summary| summary.pointer(pointer)?.as_f64()).collect()
    };
    let bytes = std::fs::metadata(agent)?.len() as f64;
    let share: Vec<f64> = all("/agent/cpu_ns")
        .iter()
        .zip(all("/agent/wall_ns"))
        .map(|(cpu, wall)| 100.0 * cpu / wall)
        .collect();
    Ok(vec![
        Row::alone("agent, binary", format!("{:.1} MB", bytes / 1e6), "<= 15 MB"),
        Row::alone(
            "agent, largest resident set",
            format!("{:.1} MB", median(&all("/agent/rss_peak_bytes")) / 1e6),
            "<= 25 MB",
        ),
        Row::alone(
            "agent, start to attached",
            format!("{:.0} ms", median(&all("/agent/attach_ns")) / 1e6),
            "<= 150 ms",
        ),
        Row::alone("agent, share of one CPU", format!("{:.2} %", median(&share)), ""),
    ])
}
