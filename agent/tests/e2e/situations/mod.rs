//! Situations as strangers meet them, each in a program of its own kind, judged by what is printed: the first
//! cause, who or what is to blame, the advice, and nothing that is not true. Invariant 4.
//!
//! [`kinds`] has a row for each; the programs are tests/data/e2e/situations. Each run with the fault is
//! followed by its control, in which the same sentence must not appear. Headline, table, advice and JSON must
//! tell the same story. No time is judged.
//!
//! GUESTSCOPE_SITUATIONS=all (or names, with commas) judges all rows, GUESTSCOPE_REPETITIONS times each, and
//! prints a table. Without it only the rows that are marked as quick are judged, once, and repeated if other
//! load may have disturbed them.

mod busy;
mod judge;
mod kinds;
mod row;
mod told;

use self::{
    busy::Busy,
    judge::Verdict,
    kinds::{KINDS, Kind},
    row::Row,
    told::Told,
};
use crate::{
    ground::{python, variable},
    truth::{Look, insist},
};

const TEST: &str = "situations::what_is_said_is_true";
/// Which rows are judged.
const VARIABLE: &str = "GUESTSCOPE_SITUATIONS";
/// Attempts of a run that others disturb.
const PATIENCE: u32 = 5;
/// How often each.
const RUNS: &str = "GUESTSCOPE_REPETITIONS";

/// Size of a fault in ms, between the row's limits, by the number of the run.
fn size(kind: &Kind, number: u32) -> u32 {
    // Multiples of the golden ratio, modulo 1, cover an interval evenly.
    let share = (f64::from(number) * 0.618_033_988_749_895).fract();
    let (least, most) = kind.ms;
    least + (f64::from(most - least) * share) as u32
}

/// One run with the fault and one without, and whether others used the CPUs meanwhile; none if this machine
/// lacks something.
fn once(kind: &Kind, number: u32) -> Option<(Verdict, Verdict, bool)> {
    let (python, busy) = (python(TEST)?, Busy::now());
    let of = |is_faulty| {
        let told = Told::of(TEST, &python, kind, (size(kind, number), number), is_faulty)?;
        Some(Verdict::of(kind, &told))
    };
    let (fault, control) = (of(true)?, of(false)?);
    let is_busy = !kind.is_beside && busy.is_much();
    Some((fault, control, is_busy))
}

/// Runs of a situation. One that is not right is repeated if others used the CPUs meanwhile, and is not
/// judged if they always do.
fn judged(kind: &'static Kind, runs: u32) -> Row {
    let (mut row, mut number) = (Row::new(kind), 0);
    for _ in 0..runs {
        let mut left = PATIENCE;
        loop {
            number += 1;
            let Some((fault, control, is_busy)) = once(kind, number) else { return row };
            left -= 1;
            if !is_busy || fault.holds() && control.is_silent_beside(&fault) {
                row.add(&fault, &control);
                break;
            }
            row.skip(&fault, &control);
            if left == 0 {
                break;
            }
        }
    }
    row
}

/// The chosen rows and the number of runs of each; none if nothing was chosen.
fn chosen() -> Option<(Vec<&'static Kind>, u32)> {
    let names = variable(VARIABLE)?.into_string().expect("names are text");
    let is_chosen = |kind: &&Kind| names == "all" || names.split(',').any(|name| name == kind.name);
    let found: Vec<&Kind> = KINDS.iter().filter(is_chosen).collect();
    assert!(!found.is_empty(), "no such situation: {names}");
    let runs = variable(RUNS).and_then(|runs| runs.into_string().ok()?.parse().ok()).unwrap_or(1);
    Some((found, runs))
}

#[test]
fn what_is_said_is_true() {
    let Some((kinds, runs)) = chosen() else { return };
    let mut failed = Vec::new();
    for kind in kinds {
        let row = judged(kind, runs);
        row.keep();
        if !row.holds() {
            failed.push(kind.name);
        }
    }
    assert!(failed.is_empty(), "{} rows do not hold: {}", failed.len(), failed.join(", "));
}

#[test]
fn quick_situations_are_told_as_they_are() {
    if chosen().is_some() {
        return;
    }
    for kind in KINDS.iter().filter(|kind| kind.is_quick) {
        insist(TEST, kind.name, |attempt| {
            let (fault, control, is_busy) = once(kind, attempt)?;
            let mut row = Row::new(kind);
            row.add(&fault, &control);
            Some(Look { holds: row.holds(), is_busy, text: row.text() })
        });
    }
}

#[test]
fn every_situation_has_a_name_of_its_own() {
    let mut names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KINDS.len());
    assert!(KINDS.iter().filter(|kind| kind.is_quick).count() >= 8);
}
