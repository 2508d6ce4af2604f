//! The verb `demo`: from a fresh machine to one observed job: image classification with ResNet-50 under
//! guestscope.
//!
//! Yields the run's own summary, its folder, a page about it, and its traces in Jaeger. It measures nothing
//! of its own.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result};

use crate::{
    Xtask, artifact,
    failure::failure,
    jaeger::{Jaeger, Life, Origin},
    kernel,
    libtorch::Libtorch,
    toolchain::Toolchain,
};

/// Name of the run, and of the service in Jaeger.
const NAME: &str = "ic";
const REQUESTS: &str = "200";
/// The outermost phase of each of them; warm-ups are traces too, under another name.
const REQUEST: &str = "request";
/// Spans are sent in batches; the last one is on its way when the agent ends.
const ARRIVAL: Duration = Duration::from_secs(10);

/// What the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) jaeger: bool,
    pub(crate) keep: bool,
}

/// The verb. Gives whether the job was observed.
pub(crate) fn verb(xtask: &mut Xtask, options: Options) -> Result<bool> {
    let toolchain = Toolchain::ensure(xtask)?;
    let libtorch = Libtorch::ensure(xtask)?;
    kernel::ensure(xtask);
    let jaeger = options.jaeger.then(|| find_jaeger(xtask, options)).flatten();
    let agent = artifact::agent(xtask, &toolchain)?;
    let workloads = artifact::workloads(xtask, Some(&libtorch))?;
    xtask.cache.release();
    let since = SystemTime::now();
    let mut run = Command::new(&agent);
    run.current_dir(&xtask.workspace.root).args(["run", "--name", NAME]);
    if let Some(jaeger) = &jaeger {
        run.args(["--otlp", &jaeger.endpoints.otlp_grpc]);
    }
    run.arg("--").arg(&workloads).args(["infer", NAME, "--requests", REQUESTS, "--text"]);
    xtask.progress.say("");
    let status = run.status().with_context(|| format!("could not start: `{}`", agent.display()))?;
    if !status.success() {
        return Err(failure(format!("the observed job failed: {status}"), "what it said stands above"));
    }
    say_where(xtask, &agent, jaeger.as_ref(), since)?;
    if let Some(jaeger) = jaeger
        && jaeger.ends_with_the_verb()
        && io::stdin().is_terminal()
    {
        writeln!(io::stdout(), "          Enter ends Jaeger and this command")?;
        io::stdin().read_line(&mut String::new())?;
    }
    Ok(true)
}

/// A Jaeger if there can be one: the demonstration goes without it rather than not at all.
fn find_jaeger(xtask: &Xtask, options: Options) -> Option<Jaeger> {
    if let Some(jaeger) = Jaeger::find() {
        xtask.progress.present("Jaeger", &jaeger.origin);
        return Some(jaeger);
    }
    let life = if options.keep { Life::OnItsOwn } else { Life::WithTheVerb };
    Jaeger::start(xtask, life, Origin::Releases)
        .inspect_err(|error| {
            xtask.progress.shortfall(format!("the demonstration runs without Jaeger: {error}"));
        })
        .ok()
}

/// Where the results are, and how to look at them.
fn say_where(xtask: &Xtask, agent: &Path, jaeger: Option<&Jaeger>, since: SystemTime) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out)?;
    if let Some(folder) = newest_folder(&xtask.workspace.root.join("runs"), since) {
        writeln!(out, "folder    {}", folder.display())?;
        writeln!(out, "page      {} (open it in a browser)", page(agent, &folder)?.display())?;
    }
    if let Some(jaeger) = jaeger {
        writeln!(out, "traces    {} in Jaeger ({})", arrived(jaeger, since)?, jaeger.origin)?;
        writeln!(out, "look      {}", jaeger.how_to_look(NAME))?;
        if let Some(how) = jaeger.how_to_end() {
            writeln!(out, "          it runs on; end it with: {how}")?;
        }
    }
    for shortfall in xtask.progress.shortfalls() {
        writeln!(out, "note      {shortfall}")?;
    }
    Ok(())
}

/// The report on the run, as a page beside its folder.
fn page(agent: &Path, folder: &Path) -> Result<PathBuf> {
    let page = folder.with_added_extension("html");
    let mut report = Command::new(agent);
    report.arg("report").arg(folder).arg("--output").arg(&page);
    let done = report.output().with_context(|| format!("could not start: `{}`", agent.display()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(failure(format!("the report could not be written: {}", done.status), said));
    }
    Ok(page)
}

/// The number of traces in Jaeger once it no longer grows.
fn arrived(jaeger: &Jaeger, since: SystemTime) -> Result<usize> {
    let started = Instant::now();
    let mut before = None;
    loop {
        let now = jaeger.count_traces(NAME, REQUEST, since)?;
        if (now > 0 && before == Some(now)) || started.elapsed() > ARRIVAL {
            return Ok(now);
        }
        before = Some(now);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folder below `runs` that was made last, if it was made since a time.
fn newest_folder(runs: &Path, since: SystemTime) -> Option<PathBuf> {
    let folders = fs::read_dir(runs).ok()?.flatten().filter(|entry| entry.path().is_dir());
    let dated = folders.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    dated.filter(|(time, _)| *time >= since).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{Duration, SystemTime},
    };

    use super::newest_folder;

    #[test]
    fn only_a_folder_of_this_run_counts() {
        let runs = tempfile::tempdir().unwrap();
        let start = SystemTime::now() - Duration::from_secs(5);
        assert_eq!(newest_folder(runs.path(), start), None);
        fs::create_dir(runs.path().join("a")).unwrap();
        fs::write(runs.path().join("b"), "a file").unwrap();
        assert_eq!(newest_folder(runs.path(), start), Some(runs.path().join("a")));
        assert_eq!(newest_folder(runs.path(), start + Duration::from_hours(1)), None);
        assert_eq!(newest_folder(&runs.path().join("none"), start), None);
    }
}
