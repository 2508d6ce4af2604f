//! The verb `lab`: the same work on many platforms of this machine, in random order, repeatedly, for
//! `guestscope compare`.
//!
//! Yields run folders below `target/lab/PLAN/runs/WORKLOAD/PLATFORM`, and continues where it was interrupted.
//! Cells that cannot run here are skipped by name (`skipped.json` has the reasons). It compares nothing.

mod abandoned;
mod container;
mod engine;
mod folders;
mod gpu;
mod journal;
mod link;
mod machine;
mod mark;
mod order;
mod plan;
mod programs;
mod ready;
mod run;
mod seen;
mod shared;
mod stun;
mod vm;

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use self::{
    journal::{Entry, Journal},
    order::{Trial, trials},
    plan::{Cell, Plan},
    ready::Platforms,
};
use crate::{Xtask, failure::failure, progress::duration};

/// Options of the verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) plan: PathBuf,
    /// Only print what would be run.
    pub(crate) dry_run: bool,
}

/// Runs the plan's missing runs that this machine can make. Returns whether the plan is complete.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    let plan = Plan::load(&options.plan)?;
    let folder = xtask.workspace.target.join("lab").join(&plan.name);
    let mut journal = Journal::open(&folder, &plan.identity())?;
    set_aside(&folder, &journal)?;
    let cells = plan.cells();
    let all = trials(cells.len(), plan.repetitions, plan.seed);
    let mut left: Vec<Trial> = all
        .iter()
        .filter(|trial| !journal.is_done(&cells[trial.cell].name(), trial.repetition))
        .copied()
        .collect();
    let done = all.len() - left.len();
    xtask.progress.present(
        "plan",
        format!("{}: {} runs of {} cells, {done} of them done", plan.name, all.len(), cells.len()),
    );
    if options.dry_run {
        for trial in &left {
            xtask.progress.say(&format!("  {} #{}", cells[trial.cell].name(), trial.repetition));
        }
        return Ok(true);
    }
    let _alone = alone(&xtask.workspace.target.join("lab"))?;
    let removed = abandoned::remove()?;
    if !removed.is_empty() {
        xtask
            .progress
            .present("containers of a lab that was killed", format!("removed: {}", removed.join(", ")));
    }
    let mut platforms = Platforms::ensure(xtask, &plan, &cells)?;
    let commit = xtask.workspace.commit();
    xtask.cache.release();
    left.retain(|trial| !platforms.skipped.contains_key(&cells[trial.cell].name()));
    for (name, reason) in &platforms.skipped {
        xtask.progress.shortfall(format!("skipped: {name}: {reason}"));
    }
    ready::keep(&platforms.skipped, &folder)?;
    let total = done + left.len();
    let mut rest = Rest::new(&journal, &cells, &left);
    for (index, trial) in left.iter().enumerate() {
        let cell = &cells[trial.cell];
        let label = format!("{} of {total}: {}", done + index + 1, cell.name());
        let run = NextRun { cell, trial: *trial, is_fresh: trial.is_fresh(plan.fresh) };
        let entry = one(xtask, &mut platforms, run, &folder, &label, &rest);
        rest.note(cell, entry.seconds);
        journal.add(Entry { commit: commit.clone(), ..entry })?;
    }
    Ok(report(xtask, &plan, &journal, &platforms.skipped, &cells, &folder))
}

/// The lock keeps a second lab off this checkout: the platforms' files have the same names, and each lab
/// would disturb the other's measurement.
fn alone(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let what = || format!("lock file: {}", path.display());
    fs::create_dir_all(folder).with_context(what)?;
    let lock = File::create(&path).with_context(what)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(failure(
            format!("another lab runs: {}", folder.display()),
            "wait for its end, or end it: what it has done is kept",
        )),
        locked => locked.with_context(what).map(|()| lock),
    }
}

/// Moves run folders aside that the journal lacks because the lab was interrupted.
fn set_aside(folder: &Path, journal: &Journal) -> Result<()> {
    let runs = folder.join("runs");
    if !runs.exists() {
        return Ok(());
    }
    for workload in folders::folders(&runs)? {
        for platform in folders::folders(&workload)? {
            for made in folders::folders(&platform)? {
                if !journal.has_folder(made.strip_prefix(folder).unwrap_or(&made)) {
                    folders::move_to(&made, &folder.join("unlisted"))?;
                }
            }
        }
    }
    Ok(())
}

/// What is run next.
struct NextRun<'a> {
    cell: &'a Cell,
    trial: Trial,
    /// Whether a guest is booted for it.
    is_fresh: bool,
}

/// One run and its entry. A failure is reported, and the other runs go on.
fn one(
    xtask: &Xtask,
    platforms: &mut Platforms,
    NextRun { cell, trial, is_fresh }: NextRun<'_>,
    folder: &Path,
    label: &str,
    rest: &Rest,
) -> Entry {
    let (started, step) = (Instant::now(), xtask.progress.step(label));
    let output = folder.join("runs").join(cell.name());
    let made = run::run(xtask, &step, platforms, cell, is_fresh, &folder.join("staging"), &output);
    let seconds = started.elapsed().as_secs_f64();
    let entry = |path: Option<PathBuf>, error: Option<String>| Entry {
        cell: cell.name(),
        repetition: trial.repetition,
        seconds,
        fresh: cell.kind.is_guest().then_some(is_fresh),
        folder: path,
        error,
        commit: None,
    };
    match made {
        Ok(path) => {
            let left = rest.after(cell).map(|left| format!("done, about {} left", duration(left)));
            step.done(left.unwrap_or_else(|| "done".to_owned()));
            entry(Some(path.strip_prefix(folder).map(Path::to_owned).unwrap_or(path)), None)
        }
        Err(error) => {
            step.failed();
            let error = format!("{error:#}");
            xtask.progress.shortfall(format!("{} #{}: {error}", cell.name(), trial.repetition));
            entry(None, Some(error))
        }
    }
}

/// Estimate of the time left, from the runs of each cell so far.
struct Rest {
    /// Runs left and seconds seen, by cell.
    cells: BTreeMap<String, (u32, Vec<f64>)>,
}

impl Rest {
    fn new(journal: &Journal, cells: &[Cell], left: &[Trial]) -> Self {
        let of = |(index, cell): (usize, &Cell)| {
            let name = cell.name();
            let left = left.iter().filter(|trial| trial.cell == index).count() as u32;
            let seen = journal.entries.iter().filter(|entry| entry.cell == name).map(|entry| entry.seconds);
            (name.clone(), (left, seen.collect()))
        };
        Self { cells: cells.iter().enumerate().map(of).collect() }
    }

    fn note(&mut self, cell: &Cell, seconds: f64) {
        if let Some((left, seen)) = self.cells.get_mut(&cell.name()) {
            *left = left.saturating_sub(1);
            seen.push(seconds);
        }
    }

    /// Time left once this run is over; none before every cell has been run.
    fn after(&self, current: &Cell) -> Option<Duration> {
        let mean = |seen: &[f64]| (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64);
        let mut seconds = 0.0;
        for (name, (left, seen)) in &self.cells {
            let left = if *name == current.name() { left.saturating_sub(1) } else { *left };
            seconds += if left == 0 { 0.0 } else { f64::from(left) * mean(seen)? };
        }
        Some(Duration::from_secs_f64(seconds))
    }
}

/// Prints what exists and how to continue. Returns whether nothing is missing.
fn report(
    xtask: &Xtask,
    plan: &Plan,
    journal: &Journal,
    skipped: &BTreeMap<String, String>,
    cells: &[Cell],
    folder: &Path,
) -> bool {
    xtask.progress.say("");
    let mut is_whole = true;
    let done = |name: &str| (0..plan.repetitions).filter(|&run| journal.is_done(name, run)).count();
    for cell in cells {
        let name = cell.name();
        is_whole &= done(&name) == plan.repetitions as usize;
        let why = skipped.get(&name).map(|reason| format!(", skipped: {reason}")).unwrap_or_default();
        xtask.progress.present(&name, format!("{} of {} runs{why}", done(&name), plan.repetitions));
    }
    let commits = journal.commits();
    if commits.len() > 1 {
        let each: Vec<String> =
            commits.iter().map(|(commit, runs)| format!("{commit} ({runs} runs)")).collect();
        xtask.progress.say(&format!(
            "\nnot all runs were made by the same programs, and `compare` takes them together: {}",
            each.join(", ")
        ));
    }
    if !is_whole {
        xtask.progress.say("\nincomplete: the same command runs what is missing, where it can be had then");
    }
    let runs = folder.join("runs");
    for workload in &plan.workloads {
        let same = |cell: &&Cell| cell.workload.name == workload.name && done(&cell.name()) > 0;
        let folders = cells
            .iter()
            .filter(same)
            .map(|cell| format!("{}={}", cell.platform(), runs.join(cell.name()).display()));
        let folders: Vec<String> = folders.collect();
        if folders.is_empty() {
            continue;
        }
        xtask.progress.say(&format!("\nnext  guestscope compare {}", folders.join(" ")));
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::alone;

    #[test]
    fn two_labs_do_not_run_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = alone(folder.path()).unwrap();
        let error = alone(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("another lab runs: "), "{error}");
        drop(first);
        alone(folder.path()).unwrap();
    }
}
