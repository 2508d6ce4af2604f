//! The agent for any length of time beside a busy service, hostile neighbours, and a collector that is absent
//! for a while.
//!
//! The service makes requests of five phases; the collector is absent for a sixth of the time, from a third
//! on. Prints a row a minute, the slope of the agent's resident set, and all losses: of spans by what
//! arrived, of edges by the agent's own counters.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{built, two_results};
use crate::{Xtask, artifact, kernel, toolchain::Toolchain};

/// Losses of which each concerns an edge.
const OF_EDGES: [&str; 5] = [
    "kernel_edges",
    "kernel_edges_torn",
    "pairing_edges_lost",
    "pairing_torn_edges",
    "pairing_unended_phases",
];
/// Ticks of `/proc/PID/stat` in a second.
const TICKS_PER_S: f64 = 100.0;
/// The resident set in the first minute still grows from the start of the agent.
const WARM_UP: Duration = Duration::from_mins(1);
/// Larger slopes are not noise, kB an hour.
const FLAT_KB_PER_H: f64 = 2_000.0;
/// Limit for the export and the closing of the folder.
const END: Duration = Duration::from_mins(15);

/// Settings of the verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How long the service runs.
    pub(crate) minutes: u64,
    /// Requests a second.
    pub(crate) rate: u64,
}

/// Programs that take part.
struct Programs {
    agent: PathBuf,
    soak: PathBuf,
}

/// A child process that is killed when it is dropped.
pub(super) struct Helper(pub(super) Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The collector, which answers commands line by line.
struct Collector {
    _process: Helper,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    endpoint: String,
}

impl Collector {
    fn start(soak: &Path) -> Result<Self> {
        let mut child = Command::new(soak)
            .arg("collector")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the collector")?;
        let (ask, answers) = (child.stdin.take(), child.stdout.take());
        let process = Helper(child);
        let mut answers = BufReader::new(answers.context("no pipe")?);
        let mut endpoint = String::new();
        answers.read_line(&mut endpoint)?;
        let (ask, endpoint) = (ask.context("no pipe")?, endpoint.trim().to_owned());
        Ok(Self { _process: process, ask, answers, endpoint })
    }

    /// The counts so far.
    fn tell(&mut self, word: &str) -> Result<Value> {
        writeln!(self.ask, "{word}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the collector said: {line:?}"))
    }
}

/// The agent's state at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) seconds: f64,
    pub(super) rss_kb: f64,
    pub(super) cpu_s: f64,
}

/// The verb, for this part alone.
pub(crate) fn verb(xtask: &mut Xtask, options: Options) -> Result<bool> {
    let (agent, soak, folder) = prepared(xtask, "bench/soak")?;
    soak_in(&folder, &Programs { agent, soak }, options)
}

/// The agent, the helper, and this folder below `target`, which is empty then.
pub(super) fn prepared(xtask: &mut Xtask, folder: &str) -> Result<(PathBuf, PathBuf, PathBuf)> {
    let toolchain = Toolchain::ensure(xtask)?;
    kernel::ensure(xtask);
    let agent = match built("GUESTSCOPE_BIN")? {
        Some(agent) => agent,
        None => artifact::agent(xtask, &toolchain)?,
    };
    let soak = match built("GUESTSCOPE_SOAK_BIN")? {
        Some(soak) => soak,
        None => example(xtask, &toolchain)?,
    };
    // It may take days: others may set things up meanwhile.
    xtask.cache.release();
    let folder = xtask.workspace.target.join(folder);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok((agent, soak, folder))
}

fn example(xtask: &Xtask, toolchain: &Toolchain) -> Result<PathBuf> {
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--release", "--locked", "--package", artifact::AGENT, "--example", "soak"]);
    toolchain.apply(&mut build);
    artifact::cargo(xtask, "the service and its collector", "build-soak", &mut build)?;
    Ok(xtask.workspace.target.join("release/examples/soak"))
}

fn soak_in(folder: &Path, programs: &Programs, options: Options) -> Result<bool> {
    let Options { minutes, rate } = options;
    let mut collector = Collector::start(&programs.soak)?;
    let (note, out) = (folder.join("note"), folder.join("out"));
    let mut command = Command::new(&programs.agent);
    command.args(["run", "--json", "--name", "soak", "--otlp", &collector.endpoint, "--output"]);
    command.arg(folder.join("runs")).arg("--").arg(&programs.soak);
    command.args(["program", &(minutes * 60).to_string(), &rate.to_string()]).arg(&note);
    command
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out)?)
        .stderr(fs::File::create(folder.join("err"))?);
    let mut agent = Helper(command.spawn().context("could not start the agent")?);
    let mut hostile = Command::new(&programs.soak);
    let hostile = hostile.arg("hostile").arg(&note).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let hostile = Helper(hostile.context("could not start the hostile neighbours")?);
    let looks = watch(folder, &mut agent.0, &mut collector, minutes)?;
    drop(hostile);
    let counts = collector.tell("count")?;
    verdict(&fs::read_to_string(&out)?, &counts, &looks)
}

/// Prints a row a minute until the agent ends.
fn watch(folder: &Path, agent: &mut Child, collector: &mut Collector, minutes: u64) -> Result<Vec<Look>> {
    let start = Instant::now();
    let all = Duration::from_secs(minutes * 60);
    let mut turns = vec![(all / 3 + all / 6, "back"), (all / 3, "away")];
    let (mut looks, mut last) = (Vec::new(), Look::default());
    let mut next_row = Duration::from_mins(1);
    let mut out = std::io::stdout().lock();
    writeln!(out, "minute  RSS kB  CPU %     arrived  twice   of waits  spill kB  collector")?;
    let mut state = "there";
    while agent.try_wait()?.is_none() && start.elapsed() < all + END {
        thread::sleep(Duration::from_secs(1));
        if let Some((_, word)) = turns.pop_if(|(at, _)| *at <= start.elapsed()) {
            collector.tell(word)?;
            state = if word == "away" { "away" } else { "there" };
        }
        let Some(look) = look(agent.id(), start.elapsed()) else { continue };
        // The end converts and exports, which is no part of the slope.
        if (WARM_UP..all).contains(&start.elapsed()) {
            looks.push(look);
        }
        if start.elapsed() >= next_row {
            next_row += Duration::from_mins(1);
            let counts = collector.tell("count")?;
            let cpu = 100.0 * (look.cpu_s - last.cpu_s) / (look.seconds - last.seconds);
            let (minute, rss, spill) = (look.seconds / 60.0, look.rss_kb, spilled_kb(folder));
            let count = |name: &str| counts[name].as_u64().unwrap_or_default();
            let (first, again, kernel) = (count("first"), count("again"), count("kernel"));
            writeln!(
                out,
                "{minute:6.1}  {rss:6.0}  {cpu:5.1}  {first:10}  {again:5}  {kernel:9}  {spill:8}  {state}"
            )?;
            out.flush()?;
            last = look;
        }
    }
    Ok(looks)
}

/// None once it has ended.
pub(super) fn look(pid: u32, since: Duration) -> Option<Look> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let rss_kb = rss.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Look { seconds: since.as_secs_f64(), rss_kb, cpu_s: (number(11)? + number(12)?) / TICKS_PER_S })
}

/// Size of the spill file on disk, kB.
fn spilled_kb(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let runs = fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    let files = runs.filter_map(|run| fs::read_dir(run.path()).ok()).flatten().flatten();
    let spills = files.filter(|file| file.file_name().to_string_lossy().starts_with("spill.otlp"));
    spills.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.blocks() / 2).sum()
}

/// Slope by least squares, kB an hour.
pub(super) fn slope(looks: &[Look]) -> f64 {
    let count = looks.len() as f64;
    let mean = |of: fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / count;
    let (time, size) = (mean(|look| look.seconds), mean(|look| look.rss_kb));
    let above: f64 = looks.iter().map(|look| (look.seconds - time) * (look.rss_kb - size)).sum();
    let below: f64 = looks.iter().map(|look| (look.seconds - time).powi(2)).sum();
    if below > 0.0 { 3_600.0 * above / below } else { 0.0 }
}

/// Prints the result; true if nothing was lost and the resident set did not grow.
fn verdict(text: &str, counts: &Value, looks: &[Look]) -> Result<bool> {
    let (program, agent) = two_results(text)?;
    let did = program["spans"].as_u64().context("the service reported no `spans`")?;
    let lost = |name: &str| {
        agent["losses"][name].as_u64().with_context(|| format!("the agent's summary has no `{name}`"))
    };
    let edges: u64 = OF_EDGES.iter().map(|name| lost(name)).sum::<Result<_>>()?;
    let sent = agent["export"]["spans_sent"].as_u64().context("the agent's summary has no `spans_sent`")?;
    let (spilled, dropped, rows) = (lost("spans_spilled")?, lost("spans_dropped")?, lost("rows_lost")?);
    let arrived = counts["first"].as_u64().context("the collector reported no `first`")?;
    // After an outage the allocator keeps the queue's peak; a leak would continue in the last quarter.
    let (over_all, slope) = (slope(looks), slope(&looks[looks.len() * 3 / 4..]));
    let peak = looks.iter().map(|look| look.rss_kb).fold(0.0, f64::max);
    let mut out = std::io::stdout().lock();
    writeln!(out, "spans of the program: {did}; arrived: {arrived}, twice: {}", counts["again"])?;
    writeln!(
        out,
        "by the agent's books: {} offered = {sent} sent + {spilled} in the folder + {dropped} dropped",
        sent + spilled + dropped
    )?;
    writeln!(out, "edges lost: {edges}; rows lost: {rows}")?;
    writeln!(
        out,
        "RSS: {peak:.0} kB at most, {over_all:+.0} kB/h over all, {slope:+.0} kB/h in the last quarter"
    )?;
    // It is unknown whether the spans in the folder are the program's or the kernel's, so none may be left
    // there.
    let is_whole = edges + dropped + rows + spilled == 0 && arrived >= did;
    let is_well = is_whole && slope < FLAT_KB_PER_H;
    writeln!(out, "{}", if is_well { "nothing lost, nothing grows" } else { "NOT as it shall be" })?;
    Ok(is_well)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::{Look, OF_EDGES, slope, verdict};

    #[test]
    fn a_slope_is_that_of_the_line_through_the_looks() {
        let look = |seconds: f64, rss_kb| Look { seconds, rss_kb, cpu_s: 0.0 };
        let rising: Vec<Look> = (0..10).map(|at| look(f64::from(at), 1_000.0 + f64::from(at))).collect();
        assert!((slope(&rising) - 3_600.0).abs() < 1e-6);
        assert!(slope(&[look(1.0, 5.0)]).abs() < 1e-6, "one look has none");
    }

    #[rstest]
    #[case::all_arrived(100, 0, 0, true)]
    #[case::one_is_missing(99, 0, 0, false)]
    #[case::one_is_missing_and_a_wait_is_in_the_folder(99, 1, 0, false)]
    #[case::one_was_dropped(100, 0, 1, false)]
    fn all_of_the_programs_spans_have_to_arrive(
        #[case] arrived: u64,
        #[case] spilled: u64,
        #[case] dropped: u64,
        #[case] is_well: bool,
    ) {
        let mut losses = json!({ "spans_spilled": spilled, "spans_dropped": dropped, "rows_lost": 0 });
        for name in OF_EDGES {
            losses[name] = 0.into();
        }
        let agent = json!({ "losses": losses, "export": { "spans_sent": 120 } });
        let text = format!("{} {agent}", json!({ "spans": 100 }));
        let counts = json!({ "first": arrived, "again": 0, "kernel": 20 });
        let said = verdict(&text, &counts, &[]).expect("it can be read");
        assert_eq!(said, is_well);
    }
}
