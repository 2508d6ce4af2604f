//! Adjusted times: inside their parents, apart, in order, and near the truth.

use proptest::prelude::*;

use super::phase;
use crate::{
    otlp::timeline::{DRIFT_NS, GAP_NS, Interval, arrange},
    phase::{Phase, PhaseKind},
};

/// Deepest nesting below the outermost phase in the trees below.
const DEPTH: u64 = 3;

/// A phase by its children, with the times between its edges.
#[derive(Clone, Debug)]
struct Tree {
    /// Time before the first child, or the whole length of a leaf.
    lead_ns: u64,
    /// Each child and the time behind it.
    children: Vec<(Tree, u64)>,
}

fn tree(step: std::ops::Range<u64>) -> impl Strategy<Value = Tree> {
    let leaf = step.clone().prop_map(|lead_ns| Tree { lead_ns, children: Vec::new() });
    leaf.prop_recursive(DEPTH as u32, 40, 5, move |inner| {
        let children = prop::collection::vec((inner, step.clone()), 0..5);
        (step.clone(), children).prop_map(|(lead_ns, children)| Tree { lead_ns, children })
    })
}

/// Appends the phases of a tree in order of start. Returns the end.
fn grow(tree: &Tree, parent: Option<u64>, start_ns: u64, phases: &mut Vec<Phase>) -> u64 {
    let id = phases.len() as u64 + 1;
    phases.push(Phase { start_ns, ..phase(1, id, parent, "phase") });
    let mut end_ns = start_ns + tree.lead_ns;
    for (child, behind_ns) in &tree.children {
        end_ns = grow(child, Some(id), end_ns, phases) + behind_ns;
    }
    phases[id as usize - 1].duration_ns = end_ns - start_ns;
    end_ns
}

fn phases_of(tree: &Tree) -> Vec<Phase> {
    let mut phases = Vec::new();
    grow(tree, None, 5_000_000, &mut phases);
    phases
}

fn exact(phase: &Phase) -> Interval {
    Interval { start_ns: phase.start_ns, end_ns: phase.start_ns + phase.duration_ns }
}

/// Pairs of siblings where the first ends before the second begins.
fn successive(phases: &[Phase]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for later in 1..phases.len() {
        for earlier in 1..later {
            if phases[earlier].parent == phases[later].parent
                && exact(&phases[earlier]).end_ns <= phases[later].start_ns
            {
                pairs.push((earlier, later));
            }
        }
    }
    pairs
}

fn assert_contained(phases: &[Phase], times: &[Interval]) {
    for (position, phase) in phases.iter().enumerate() {
        assert!(times[position].start_ns <= times[position].end_ns, "a negative duration at {position}");
        if let Some(parent) = phase.parent {
            let parent = times[phases.iter().position(|other| other.id == parent).expect("it has a parent")];
            assert!(parent.start_ns <= times[position].start_ns, "{position} begins before its parent");
            assert!(times[position].end_ns <= parent.end_ns, "{position} ends after its parent");
        }
    }
}

fn assert_near(phases: &[Phase], times: &[Interval]) {
    for (phase, time) in phases.iter().zip(times) {
        let limit = DRIFT_NS + (DEPTH + 1) * GAP_NS;
        assert!(time.start_ns.abs_diff(phase.start_ns) <= limit, "{time:?} for {phase:?}");
        assert!(time.end_ns.abs_diff(exact(phase).end_ns) <= limit, "{time:?} for {phase:?}");
    }
}

proptest! {
    /// Edges that are 1 us apart, as those of uprobes are, stay where they are.
    #[test]
    fn edges_apart_are_not_moved(tree in tree(GAP_NS..20_000)) {
        let phases = phases_of(&tree);
        let expected: Vec<Interval> = phases.iter().map(exact).collect();
        prop_assert_eq!(arrange(&phases, &[]), expected);
    }

    /// Any edges, even all at one nanosecond.
    #[test]
    fn children_stay_inside_in_order_and_near(tree in tree(0..3_000)) {
        let phases = phases_of(&tree);
        let times = arrange(&phases, &[]);
        assert_contained(&phases, &times);
        assert_near(&phases, &times);
        for (earlier, later) in successive(&phases) {
            prop_assert!(times[earlier].start_ns <= times[later].start_ns);
            prop_assert!(times[earlier].end_ns <= times[later].end_ns);
        }
    }

    /// Siblings of some length that abut.
    #[test]
    fn abutting_siblings_are_set_apart(lengths in prop::collection::vec(4_000_u64..50_000, 1..20)) {
        let children = lengths.iter().map(|&lead_ns| (Tree { lead_ns, children: Vec::new() }, 0)).collect();
        let phases = phases_of(&Tree { lead_ns: 0, children });
        let times = arrange(&phases, &[]);
        assert_contained(&phases, &times);
        assert_near(&phases, &times);
        for (earlier, later) in successive(&phases) {
            prop_assert!(times[earlier].end_ns + GAP_NS <= times[later].start_ns);
            // Jaeger compares whole microseconds of the end, as start plus duration, and of the start.
            let end_us = times[earlier].start_ns / 1_000 + (times[earlier].end_ns - times[earlier].start_ns) / 1_000;
            prop_assert!(end_us < times[later].start_ns / 1_000);
        }
        prop_assert!(times[1].start_ns >= times[0].start_ns + GAP_NS, "the first child lies inside");
        prop_assert!(times[times.len() - 1].end_ns + GAP_NS <= times[0].end_ns, "the last child lies inside");
    }
}

#[test]
fn the_outermost_reaches_back_to_its_queue() {
    let root = Phase { start_ns: 9_000_000, duration_ns: 4_000_000, ..phase(1, 1, None, "infer") };
    let queue = Phase {
        kind: PhaseKind::Queue,
        start_ns: 2_000_000,
        duration_ns: 7_000_000,
        ..phase(1, 2, Some(1), "queue")
    };
    let work = Phase { start_ns: 9_000_000, duration_ns: 4_000_000, ..phase(1, 3, Some(1), "inference") };
    let times = arrange(&[root, queue, work], &[]);
    let expected = [(2_000_000, 13_000_000), (2_001_000, 8_999_000), (9_000_000, 12_999_000)];
    assert_eq!(times, expected.map(|(start_ns, end_ns)| Interval { start_ns, end_ns }));
}

#[test]
fn overlapping_siblings_are_left_alone() {
    let root = Phase { start_ns: 0, duration_ns: 100_000, ..phase(1, 1, None, "infer") };
    let first = Phase { start_ns: 10_000, duration_ns: 50_000, ..phase(1, 2, Some(1), "async") };
    let second = Phase { start_ns: 20_000, duration_ns: 10_000, ..phase(1, 3, Some(1), "async") };
    // It begins when the first one ends, not the second one.
    let third = Phase { start_ns: 60_000, duration_ns: 10_000, ..phase(1, 4, Some(1), "async") };
    let times = arrange(&[root, first, second, third], &[]);
    let expected = [(0, 100_000), (10_000, 59_000), (20_000, 30_000), (60_000, 70_000)];
    assert_eq!(times, expected.map(|(start_ns, end_ns)| Interval { start_ns, end_ns }));
}

/// A wait is set apart from the phases and waits beside it, in its phase and no other.
#[test]
fn waits_are_children_of_their_phase() {
    let root = Phase { start_ns: 0, duration_ns: 100_000, ..phase(1, 1, None, "infer") };
    let inner = Phase { start_ns: 40_000, duration_ns: 20_000, ..phase(1, 2, Some(1), "inference") };
    let wait = |position, start_ns, end_ns| (position, Interval { start_ns, end_ns });
    // In no order: two beside the inner phase, one that fills it, one at the edge of the outermost.
    let waits =
        [wait(0, 60_000, 70_000), wait(0, 10_000, 40_000), wait(1, 40_000, 60_000), wait(0, 90_000, 100_000)];
    let times = arrange(&[root, inner], &waits);
    let expected = [
        (0, 100_000),
        (40_000, 59_000),
        (60_000, 70_000),
        (10_000, 39_000),
        (41_000, 58_000),
        (90_000, 99_000),
    ];
    assert_eq!(times, expected.map(|(start_ns, end_ns)| Interval { start_ns, end_ns }));
}
