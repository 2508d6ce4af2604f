//! Selects the parts of a request's excess to show: those that matter, and one number each for the rest of
//! them.
//!
//! Yields rows that add up: the parts of a phase to the phase, the phases to the excess, to the nanosecond.

use crate::analyze::explain::{Case, CasePhase, Part};

/// Parts below 1 / `MATTERS` of the request's excess are summed up.
const MATTERS: u64 = 50;
/// Most phases shown.
const PHASES: usize = 8;
/// Most parts shown of each phase.
const PARTS: usize = 5;

/// A phase, or the sum of those not shown.
#[derive(Debug)]
pub(super) struct ShownPhase<'a> {
    /// None for the sum of the phases that are not shown.
    pub(super) phase: Option<&'a CasePhase>,
    /// The sum over `parts`; the phases not shown have no parts.
    pub(super) excess_ns: i64,
    pub(super) parts: Vec<ShownPart<'a>>,
}

/// A part, or the sum of a phase's parts not shown.
#[derive(Debug)]
pub(super) struct ShownPart<'a> {
    /// None for the rest.
    pub(super) part: Option<&'a Part>,
    pub(super) excess_ns: i64,
}

/// Phases in their order, the largest excess first, then the sum of the others.
pub(super) fn shown(case: &Case) -> Vec<ShownPhase<'_>> {
    let whole: u64 =
        case.phases.iter().flat_map(|phase| &phase.parts).map(|part| part.excess_ns.unsigned_abs()).sum();
    let least_ns = case.excess_ns.unsigned_abs().max(whole / 2) / MATTERS;
    let matters = |phase: &&CasePhase| largest(phase) >= least_ns && largest(phase) > 0;
    let mut rows: Vec<ShownPhase<'_>> =
        case.phases.iter().filter(matters).take(PHASES).map(|phase| shown_phase(phase, least_ns)).collect();
    let elsewhere = case.excess_ns - rows.iter().map(|row| row.excess_ns).sum::<i64>();
    if elsewhere != 0 {
        rows.push(ShownPhase { phase: None, excess_ns: elsewhere, parts: Vec::new() });
    }
    rows
}

fn largest(phase: &CasePhase) -> u64 {
    phase.parts.iter().map(|part| part.excess_ns.unsigned_abs()).max().unwrap_or(0)
}

fn shown_phase(phase: &CasePhase, least_ns: u64) -> ShownPhase<'_> {
    let mut by_size: Vec<&Part> =
        phase.parts.iter().filter(|part| part.excess_ns.unsigned_abs() >= least_ns).collect();
    by_size.sort_by_key(|part| std::cmp::Reverse(part.excess_ns.unsigned_abs()));
    by_size.truncate(PARTS);
    by_size.sort_by_key(|part| std::cmp::Reverse(part.excess_ns));
    let mut parts: Vec<ShownPart<'_>> =
        by_size.into_iter().map(|part| ShownPart { part: Some(part), excess_ns: part.excess_ns }).collect();
    let rest = phase.excess_ns - parts.iter().map(|part| part.excess_ns).sum::<i64>();
    if rest != 0 {
        parts.push(ShownPart { part: None, excess_ns: rest });
    }
    ShownPhase { phase: Some(phase), excess_ns: phase.excess_ns, parts }
}
