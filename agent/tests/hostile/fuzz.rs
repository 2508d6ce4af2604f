//! Gives many hostile folders to the verbs, and collects their faults.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    craft::{Good, craft, mutate},
    observed::{VERBS, observe},
};

/// Amount of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mutated: u64,
    pub(crate) crafted: u64,
    /// Only this folder: whether it is crafted, and its number.
    pub(crate) only: Option<(bool, u64)>,
}

/// Results of a verb on all folders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) folders: u64,
    pub(crate) told: u64,
    pub(crate) refused: u64,
    pub(crate) faults: u64,
    pub(crate) most_rss_bytes: u64,
}

/// Rows in the order of [`VERBS`], and a line for each fault.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rows: [Row; VERBS.len()],
    pub(crate) faults: Vec<String>,
}

/// Runs the plan on all CPUs.
pub(crate) fn fuzz(binary: &Path, plan: Plan, parent: &Path) -> Report {
    let good = Good::make(parent);
    let (report, next) = (Mutex::new(Report::default()), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (good, report, next) = (&good, &report, &next);
            scope.spawn(move || {
                let place = parent.join(format!("thread-{thread}"));
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= plan.mutated + plan.crafted {
                        return;
                    }
                    let (is_crafted, index) =
                        if index < plan.crafted { (true, index) } else { (false, index - plan.crafted) };
                    if plan.only.is_none_or(|only| only == (is_crafted, index)) {
                        one(binary, plan.seed, (is_crafted, index), good, &place, report);
                    }
                }
            });
        }
    });
    report.into_inner().unwrap_or_default()
}

/// A crafted folder is given to all verbs, a mutated one to two of them in turn.
fn one(
    binary: &Path,
    seed: u64,
    (is_crafted, index): (bool, u64),
    good: &Good,
    place: &Path,
    report: &Mutex<Report>,
) {
    drop(fs::remove_dir_all(place));
    fs::create_dir_all(place).expect("a directory can be made");
    let made: (PathBuf, String) =
        if is_crafted { craft(good, place, seed, index) } else { mutate(good, place, seed, index) };
    let (folder, what) = made;
    for (at, verb) in VERBS.iter().enumerate() {
        let turn = index as usize % (VERBS.len() / 2);
        if !is_crafted && at % (VERBS.len() / 2) != turn {
            continue;
        }
        let outcome = observe(binary, verb, &folder, &good.closed, place);
        let Ok(mut report) = report.lock() else { return };
        let row = &mut report.rows[at];
        row.folders += 1;
        row.told += u64::from(matches!(outcome.code, Some(0 | 1)));
        row.refused += u64::from(outcome.code == Some(2));
        row.most_rss_bytes = row.most_rss_bytes.max(outcome.rss_bytes);
        if let Some(fault) = outcome.fault {
            row.faults += 1;
            let kind = if is_crafted { "crafted" } else { "mutated" };
            let said: String = outcome.said.chars().take(300).collect();
            report
                .faults
                .push(format!("{verb}: {fault}: --seed {seed} --only {kind}:{index}: {what}: {said}"));
        }
    }
}
