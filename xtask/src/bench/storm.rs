//! Losses at high rates of phases and switches, compared with the program's own counts.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Bench, Row, two_results};

const SECONDS: &str = "60";
const PHASES_PER_S: &str = "10000";
const SWITCHES_PER_S: &str = "50000";
/// Losses of which each concerns an edge.
const OF_EDGES: [&str; 5] = [
    "kernel_edges",
    "kernel_edges_torn",
    "pairing_edges_lost",
    "pairing_torn_edges",
    "pairing_unended_phases",
];

/// One run, and what it lost.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let step = bench.xtask.progress.step("a storm of phases and switches");
    let mut command = bench.observe("storm", &bench.storm)?;
    let output = command
        .args([SECONDS, PHASES_PER_S, SWITCHES_PER_S])
        .output()
        .context("could not start the agent")?;
    let (program, agent) = two_results(&String::from_utf8_lossy(&output.stdout))?;
    let did =
        |name: &str| program[name].as_u64().with_context(|| format!("the result of `storm` has no `{name}`"));
    let lost = |name: &str| {
        agent["losses"][name].as_u64().with_context(|| format!("the agent's summary has no `{name}`"))
    };
    let (phases, switches) = (did("phases")?, did("switches")?);
    let seen = agent["requests"].as_u64().context("the agent's summary has no `requests`")?;
    let edges: u64 = OF_EDGES.iter().map(|name| lost(name)).sum::<Result<_>>()?;
    step.done(format!("{phases} phases, {switches} switches"));
    let row = |what: &str, measured: String, budget| {
        let what = format!("{what}, {PHASES_PER_S} phases/s, {SWITCHES_PER_S} switches/s, {SECONDS} s");
        Row::alone(what, measured, budget)
    };
    Ok(vec![
        row("edges lost", format!("{edges} of {}", 2 * phases), "0"),
        row("phases seen", format!("{seen} of {phases}"), "all"),
        row("waits without a record", lost("kernel_waits")?.to_string(), "counted"),
        row("sums of helpers left out", lost("kernel_sums_torn")?.to_string(), "counted"),
        row("agent, share of one CPU", share(&agent)?, ""),
    ])
}

fn share(agent: &Value) -> Result<String> {
    let ns = |name: &str| {
        agent["agent"][name].as_f64().with_context(|| format!("the agent's summary has no `{name}`"))
    };
    Ok(format!("{:.1} %", 100.0 * ns("cpu_ns")? / ns("wall_ns")?))
}
