//! Time and memory of `explain` over one large run, a folder of a million requests that an example makes.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};

use super::{
    Bench, Row,
    compared::{make, run},
    ratio::median,
};

const REQUESTS: usize = 1_000_000;

/// One row.
pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let parent = make(bench, "explained", [1, REQUESTS, 1])?;
    let folder = fs::read_dir(&parent)?.next().context("the example made no folder")??.path();
    let step = bench.xtask.progress.step("explain");
    let (mut seconds, mut peak_mb) = (Vec::new(), 0.0_f64);
    for _ in 0..bench.rounds {
        let (took, bytes) = run(Command::new(&bench.agent).arg("explain").arg(&folder))?;
        seconds.push(took.as_secs_f64());
        peak_mb = peak_mb.max(bytes as f64 / 1e6);
    }
    step.done(format!("{} rounds", bench.rounds));
    // 400 MB that nobody needs afterwards.
    fs::remove_dir_all(&parent)?;
    Ok(vec![Row::alone(
        format!("explain of {REQUESTS} requests, 4 phases and a wait each"),
        format!("{:.2} s, {peak_mb:.0} MB", median(&seconds)),
        "5 s, 300 MB",
    )])
}
