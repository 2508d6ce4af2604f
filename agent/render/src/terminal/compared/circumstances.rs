//! The basis of a comparison: the work, the runs, and notes on them.

use crate::analyze::compare::Work;

use super::{
    super::{
        page::{Emphasis, Page},
        units::{counted, thousands},
    },
    subject::Compared,
    why::{limit_words, signed_percent},
};
use crate::analyze::compare::GOOD_RUNS;

/// Amount of detail on single runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notes {
    /// The first notes, and where the others are.
    Few,
    /// All notes.
    All,
}

/// Work, runs, notes.
pub(super) fn circumstances(page: &mut Page, compared: &Compared, notes: Notes) {
    let Compared { comparison, work, .. } = compared;
    let work = match work {
        Work::Equal { hash, words, outputs_differ } => {
            let outputs = if *outputs_differ {
                "; its outputs differ to the bit, as other CPUs or threads make them"
            } else {
                ""
            };
            format!("work equal ({}, hash {}){outputs}", page.name(words.join(", "), 60), page.name(hash, 20))
        }
        Work::SameCommand(command) if command.is_empty() => {
            "work taken for equal: the programs say nothing about it".to_owned()
        }
        Work::SameCommand(command) => format!(
            "work taken for equal: the same command, `{}`; a work_hash in the workload's file would prove it",
            page.name(command, 60)
        ),
        Work::Unknown(what) => format!("WORK NOT EQUAL, compared all the same: {}", page.name(what, 300)),
    };
    let emphasis = if work.starts_with("WORK") { Emphasis::Bad } else { Emphasis::None };
    page.sentence(&work, emphasis);
    let sides =
        || std::iter::once(&comparison.baseline).chain(comparison.platforms.iter().map(|one| &one.side));
    let runs: Vec<String> =
        sides().map(|side| format!("{} {}", side.runs, page.name(&side.label, 40))).collect();
    let (fewest, most) = sides()
        .fold((u64::MAX, 0), |(fewest, most), side| (fewest.min(side.requests.0), most.max(side.requests.1)));
    let requests = if fewest == most {
        thousands(most)
    } else {
        format!("{} to {}", thousands(fewest), thousands(most))
    };
    let what = if compared.is_process { "processes" } else { "requests" };
    let name = page.name(&comparison.request, 40);
    page.sentence(
        &format!(
            "runs: {}; {requests} {what} `{name}` in each; platforms grouped by {}",
            runs.join(", "),
            compared.by
        ),
        Emphasis::None,
    );
    limits(page, compared);
    let warmup: u64 = sides().map(|side| side.warmup).sum();
    if warmup > 0 {
        page.sentence(
            &format!(
                "{} at the start of the runs left out as warm-up",
                counted(warmup, "request", "requests")
            ),
            Emphasis::None,
        );
    }
    warnings(page, compared, notes);
}

/// Limits that differ from the baseline's, a line for each platform.
fn limits(page: &mut Page, compared: &Compared) {
    for one in compared.comparison.platforms.iter().filter(|one| !one.limits.is_empty()) {
        let texts: Vec<String> = one.limits.iter().map(limit_words).collect();
        let text = format!("limits of {} differ: {}", one.side.label, texts.join("; "));
        let text = page.name(&text, LONGEST_NOTE);
        page.sentence(&text, Emphasis::None);
    }
}

/// More notes than these are summed up.
const MOST_NOTES: usize = 6;
/// Longer ones are cut: they hold names and messages of others.
const LONGEST_NOTE: usize = 600;

fn warnings(page: &mut Page, compared: &Compared, notes: Notes) {
    let comparison = &compared.comparison;
    let sides =
        || std::iter::once(&comparison.baseline).chain(comparison.platforms.iter().map(|one| &one.side));
    let mut warnings = Vec::new();
    if sides().any(|side| side.runs < GOOD_RUNS) {
        warnings.push(format!("fewer than {GOOD_RUNS} runs of a platform: differences are found less often"));
    }
    for one in comparison.platforms.iter().filter(|one| !one.interleaved) {
        warnings.push(format!(
            "the runs of {} and {} did not take turns: a change of the machine in between would look the same",
            comparison.baseline.label, one.side.label
        ));
    }
    for side in sides().filter(|side| side.drifts) {
        let by = side.drift.map_or_else(String::new, signed_percent);
        warnings.push(format!(
            "{}: latencies change by {by} from the first to the last third of its runs",
            side.label
        ));
    }
    let most = match notes {
        Notes::Few => MOST_NOTES,
        Notes::All => usize::MAX,
    };
    warnings.extend(compared.notes.iter().take(most).cloned());
    if compared.notes.len() > most {
        warnings.push(format!("and {} more such notes: see --json", compared.notes.len() - most));
    }
    for warning in warnings {
        let text = page.name(&warning, LONGEST_NOTE);
        page.sentence(&format!("note: {text}"), Emphasis::Warning);
    }
}
