//! Times of exported spans: what Jaeger's critical path needs, at most a few microseconds from the truth.
//!
//! Jaeger counts in microseconds and takes the next child only if it ends strictly before the one after it
//! begins (jaeger-ui, `findLastFinishingChildSpan`): of siblings that abut in one microsecond the earlier one
//! vanishes from the path. So siblings get 1 us between them and children lie 1 us inside their parents.
//! Phases whose edges are 1 us apart anyway, which is every phase that a uprobe marks, are not moved at all.
//! Waits are children of their phase like any other. This module never changes a duration that people read:
//! the exact one is an attribute of the span.

use std::collections::HashMap;

use crate::phase::{Phase, PhaseKind};

/// Gap between siblings, and between a child and its parent's edge.
pub(super) const GAP_NS: u64 = 1_000;
/// How far siblings shorter than the gap may push a later one before the gap is given up.
pub(super) const DRIFT_NS: u64 = 3_000;

/// Start and end on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// ns.
    pub(super) start_ns: u64,
    /// ns, never before the start.
    pub(super) end_ns: u64,
}

impl Interval {
    /// The exact interval of a phase.
    pub(super) fn of(phase: &Phase) -> Self {
        Self { start_ns: phase.start_ns, end_ns: phase.start_ns.saturating_add(phase.duration_ns) }
    }
}

/// Sent times of a request's phases, in the order of `phases`, then of its waits. A wait is given by its
/// phase's position and its part inside that phase.
///
/// The outermost phase reaches back to the start of its queue. A phase whose parent does not precede it,
/// which pairing never yields, is put under the outermost one.
pub(super) fn arrange(phases: &[Phase], waits: &[(usize, Interval)]) -> Vec<Interval> {
    let exact = phases.iter().map(Interval::of).chain(waits.iter().map(|(_, wait)| *wait));
    let mut times: Vec<Interval> = exact.collect();
    let queued =
        phases.iter().filter(|phase| phase.kind == PhaseKind::Queue).map(|phase| phase.start_ns).min();
    if let (Some(root), Some(queued)) = (times.first_mut(), queued) {
        root.start_ns = root.start_ns.min(queued);
    }
    let mut families = by_parent(phases);
    for (behind, (phase, _)) in waits.iter().enumerate() {
        families[*phase].push(phases.len() + behind);
    }
    for (parent, mut children) in families.into_iter().enumerate() {
        children.sort_by_key(|&child| times[child].start_ns);
        let exact: Vec<Interval> = children.iter().map(|&child| times[child]).collect();
        for (child, placed) in children.into_iter().zip(place(times[parent], &exact)) {
            times[child] = placed;
        }
    }
    times
}

/// The children of each phase, by position. A child stands after its parent, so that one pass places all.
fn by_parent(phases: &[Phase]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); phases.len()];
    let mut seen = HashMap::with_capacity(phases.len());
    for (position, phase) in phases.iter().enumerate() {
        if position > 0 {
            let parent = phase.parent.and_then(|id| seen.get(&id)).copied().unwrap_or(0);
            children[parent].push(position);
        }
        seen.insert(phase.id, position);
    }
    children
}

/// Places siblings, sorted by start, inside their parent.
fn place(parent: Interval, exact: &[Interval]) -> Vec<Interval> {
    // A parent of less than 4 us cannot give away 1 us at either side.
    let inset = GAP_NS.min((parent.end_ns - parent.start_ns) / 4);
    let (low, high) = (parent.start_ns + inset, parent.end_ns - inset);
    let mut starts: Vec<u64> = Vec::with_capacity(exact.len());
    for (position, sibling) in exact.iter().enumerate() {
        let own = sibling.start_ns.clamp(low, high);
        let start = match position.checked_sub(1) {
            None => own,
            Some(before) => after(starts[before], exact[before].end_ns <= sibling.start_ns, own),
        };
        starts.push(start.min(high));
    }
    let ends = exact.iter().enumerate().map(|(position, sibling)| {
        // The first sibling that begins when this one is over; siblings that overlap (async phases) stay as
        // they are.
        let next =
            position + 1 + exact[position + 1..].partition_point(|other| other.start_ns < sibling.end_ns);
        let limit = starts.get(next).map_or(high, |start| start.saturating_sub(GAP_NS).min(high));
        sibling.end_ns.min(limit).max(starts[position])
    });
    starts.iter().zip(ends).map(|(&start_ns, end_ns)| Interval { start_ns, end_ns }).collect()
}

/// Start of a sibling that would begin at `own`, when the one before it begins at `before`.
fn after(before: u64, apart: bool, own: u64) -> u64 {
    let spaced = if apart { before + GAP_NS } else { before };
    if spaced <= own + DRIFT_NS { own.max(spaced) } else { own.max(before) }
}

/// Wall time, ns since 1970. A clock set before 1970 yields 1970, because receivers read no earlier time.
pub(super) fn wall_ns(monotonic_ns: u64, wall_offset_ns: i64) -> u64 {
    monotonic_ns.saturating_add_signed(wall_offset_ns)
}
