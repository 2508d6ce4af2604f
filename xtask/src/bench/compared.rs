//! Time and memory of `compare` and `report` over many large runs, from folders that an example makes, half
//! of them for a slower platform. Also the time that a browser takes to show that report.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{Bench, Row, json_of, ratio::median};
use crate::{apt, command};

const RUNS: usize = 20;
const REQUESTS: usize = 10_000;
/// Long waits of each request, as many as in a guest with a neighbour: a page without waits would be small.
const WAITS: usize = 8;
/// The browser, which the page's tests use too.
const CHROMIUM: &str = "chromium";
/// Interval between readings of a process's memory. The kernel keeps the peak, so only what it takes after
/// the last reading can be missed.
const LOOK: Duration = Duration::from_millis(2);

/// A row for each verb, and one for the page.
pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = make(bench, "compared", [RUNS, REQUESTS, WAITS])?;
    let verbs: [(&[&str], &str); 2] = [(&["compare", "--json"], "2 s, 300 MB"), (&["report"], "")];
    let mut rows = Vec::new();
    for (words, budget) in verbs {
        let verb = words[0];
        let step = bench.xtask.progress.step(format!("{verb} of {RUNS} runs"));
        let (mut seconds, mut peak_mb) = (Vec::new(), 0.0_f64);
        for _ in 0..bench.rounds {
            let (took, bytes) = run(Command::new(&bench.agent).args(words).arg(&folder))?;
            seconds.push(took.as_secs_f64());
            peak_mb = peak_mb.max(bytes as f64 / 1e6);
        }
        step.done(format!("{} rounds", bench.rounds));
        rows.push(Row::alone(
            format!("{verb} of {RUNS} runs with {REQUESTS} requests each"),
            format!("{:.2} s, {peak_mb:.0} MB", median(&seconds)),
            budget,
        ));
    }
    rows.push(opened(bench, &folder)?);
    Ok(rows)
}

/// Time that Chromium takes to show a report of these folders, each time newly started: from the start of
/// navigation to the first paint, to the whole page loaded, and to the first charts on the screen.
fn opened(bench: &Bench<'_>, folder: &Path) -> Result<Row> {
    const NAMES: [&str; 3] = ["first_paint_ms", "load_ms", "charts_ms"];
    let page = folder.with_extension("html");
    match fs::remove_file(&page) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    run(Command::new(&bench.agent).arg("report").arg(folder).arg("--output").arg(&page))?;
    let size_mb = fs::metadata(&page)?.len() as f64 / 1e6;
    let what = format!("that report of {size_mb:.1} MB in Chromium: first paint, loaded, charts seen");
    let row = |measured: String| Row::alone(what, measured, "1 s");
    if command::find(CHROMIUM).is_none() {
        apt::want(bench.xtask, &[CHROMIUM], "no browser to open a report in");
    }
    if command::find(CHROMIUM).is_none() {
        return Ok(row(format!("no {CHROMIUM} in PATH")));
    }
    let step = bench.xtask.progress.step("the report in Chromium");
    let mut seconds = NAMES.map(|_| Vec::new());
    for _ in 0..bench.rounds {
        let took = json_of(Command::new(&bench.made_folders).arg("--open").arg(&page))?;
        for (seconds, name) in seconds.iter_mut().zip(NAMES) {
            let ms = took[name].as_f64().with_context(|| format!("no number `{name}`: {took}"))?;
            seconds.push(ms / 1e3);
        }
    }
    step.done(format!("{} rounds", bench.rounds));
    let medians: Vec<String> = seconds.iter().map(|seconds| format!("{:.2} s", median(seconds))).collect();
    Ok(row(medians.join(", ")))
}

/// A new folder of run folders: how many, requests in each, waits in each request.
pub(super) fn make(bench: &Bench<'_>, name: &str, numbers: [usize; 3]) -> Result<PathBuf> {
    let folder = bench.folder()?.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let [runs, requests, _] = numbers;
    let step = bench.xtask.progress.step("made runs");
    let mut command = Command::new(&bench.made_folders);
    command.arg(&folder).args(numbers.map(|number| number.to_string()));
    let status = command.status().context("could not start the example `made_folders`")?;
    ensure!(status.success(), "the example `made_folders` failed: {status}");
    step.done(format!("{runs} of {requests} requests"));
    Ok(folder)
}

/// Duration of one run of the agent, and its peak resident set, bytes.
pub(super) fn run(command: &mut Command) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let (mut peak_bytes, status) = (0, format!("/proc/{}/status", child.id()));
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{command:?}: {status}");
            return Ok((start.elapsed(), peak_bytes));
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak_bytes = peak.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(peak_bytes, |kib| kib * 1024);
        thread::sleep(LOOK);
    }
}
