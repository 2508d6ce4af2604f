//! Which waits are kept and which are shown, and that every one of them is shown or counted.

use guestscope_contract::Account;
use proptest::prelude::*;

use super::{phase, request, wait};
use crate::{
    otlp::{
        timeline::Interval,
        waits::{Chosen, EVENTS, Keeper, LEAST_NS, MOST, Note, SPANS, inside},
    },
    phase::{Phase, Request, Wait},
};

fn chosen(request: &Request, waits: impl IntoIterator<Item = Wait>) -> Chosen {
    let mut keeper = Keeper::default();
    waits.into_iter().for_each(|wait| keeper.add(wait));
    let chosen = keeper.take(request);
    assert_eq!(keeper.no_room, 0, "there is room");
    chosen
}

/// A phase of one second, whose waits are 1 ms apart.
fn long_phase() -> Phase {
    Phase { duration_ns: 1_000_000_000, ..phase(1, 1, None, "inference") }
}

fn alone(phase: &Phase) -> Request {
    Request { phases: vec![phase.clone()] }
}

fn lengths(chosen: &Chosen) -> (Vec<u64>, Vec<u64>, u64) {
    let notes = chosen.notes.first();
    (
        chosen.spans.iter().map(|(_, wait)| wait.duration_ns).collect(),
        notes.map(|notes| notes.events.iter().map(|event| event.duration_ns).collect()).unwrap_or_default(),
        notes.map_or(0, |notes| notes.left_out),
    )
}

#[test]
fn the_longest_that_matter_are_spans_the_next_ones_events_and_the_rest_is_counted() {
    let phase = long_phase();
    // 10 ms is one per cent of the phase; of 50 waits 5 are as long.
    let waits = (0..50).map(|at| wait(&phase, at * 15_000_000, 9_999_995 + at % 10 * (at / 40)));
    let (spans, events, left_out) = lengths(&chosen(&alone(&phase), waits));
    assert_eq!(spans, [10_000_000, 10_000_001, 10_000_002, 10_000_003, 10_000_004]);
    assert_eq!((events.len(), left_out), (EVENTS, 50 - 5 - 32));
    // Nine matter, and eight are shown: of equally long ones the first stays.
    let waits = (0..9).map(|at| wait(&phase, at * 30_000_000, 20_000_000));
    let chosen = chosen(&alone(&phase), waits);
    let begins: Vec<u64> = chosen.spans.iter().map(|(_, wait)| wait.start_ns - phase.start_ns).collect();
    assert_eq!(begins, (0..8).map(|at| at * 30_000_000).collect::<Vec<u64>>());
    let last =
        Note { account: Account::Lock, start_ns: phase.start_ns + 240_000_000, duration_ns: 20_000_000 };
    assert_eq!((&chosen.notes[0].events[..], chosen.notes[0].left_out), (&[last][..], 0));
}

#[test]
fn what_is_shorter_than_100_us_is_an_event_even_in_a_short_phase() {
    let phase = phase(1, 1, None, "inference");
    let waits = [wait(&phase, 1_000, 99_999), wait(&phase, 200_000, 100_000)];
    assert_eq!(lengths(&chosen(&alone(&phase), waits)), (vec![100_000], vec![99_999], 0));
}

/// A phase's end may be stamped by another thread, or before the wait: the span must not leave its parent.
#[test]
fn what_sticks_out_of_a_phase_is_cut_off_and_what_lies_outside_is_counted() {
    let phase = Phase { duration_ns: 50_000_000, ..phase(1, 1, None, "inference") };
    let end_ns = phase.start_ns + phase.duration_ns;
    let out = wait(&phase, 49_000_000, 5_000_000);
    let early = Wait { start_ns: phase.start_ns - 1_000_000, ..wait(&phase, 0, 3_000_000) };
    let behind = wait(&phase, 50_000_000, 4_000_000);
    let before = Wait { start_ns: phase.start_ns - 5_000_000, ..wait(&phase, 0, 5_000_000) };
    let cut = |wait: &Wait| inside(wait, &phase).map(|Interval { start_ns, end_ns }| (start_ns, end_ns));
    assert_eq!(cut(&out), Some((phase.start_ns + 49_000_000, end_ns)));
    assert_eq!(cut(&early), Some((phase.start_ns, phase.start_ns + 2_000_000)));
    assert_eq!((cut(&behind), cut(&before)), (None, None));
    let chosen = chosen(&alone(&phase), [out, early, behind, before]);
    // The durations stay those of the rows.
    assert_eq!(lengths(&chosen), (vec![3_000_000, 5_000_000], vec![], 2));
}

#[test]
fn waits_go_to_their_own_phases_and_those_outside_to_none() {
    let request = request(1, 3);
    let [root, first, second] = &request.phases[..] else { panic!("three phases") };
    let other = super::request(2, 1);
    let outside = Wait { phase: None, root: None, ..wait(first, 0, 500_000) };
    let mut keeper = Keeper::default();
    let waits =
        [wait(second, 0, 200_000), wait(root, 0, 300_000), outside, wait(&other.phases[0], 0, 400_000)];
    for wait in waits {
        keeper.add(wait);
    }
    let positions = |chosen: &Chosen| -> Vec<(usize, u64)> {
        chosen.spans.iter().map(|(position, wait)| (*position, wait.duration_ns)).collect()
    };
    assert_eq!(positions(&keeper.take(&request)), [(0, 300_000), (2, 200_000)]);
    assert_eq!(positions(&keeper.take(&request)), [], "nothing comes twice");
    assert_eq!(positions(&keeper.take(&other)), [(0, 400_000)]);
}

/// A request without an end, or too many at once: the longest waits stay, the others are counted.
#[test]
fn what_has_no_room_is_counted() {
    let mut keeper = Keeper::default();
    let phases: Vec<Phase> = (1..=1_100).map(|id| phase(7, id, None, "endless")).collect();
    let mut given = 0;
    for phase in &phases[1_000..] {
        keeper.add(wait(phase, 1_000, 50));
        given += 1;
    }
    for round in 1..=20 {
        for phase in &phases[..1_000] {
            keeper.add(wait(phase, round * 1_000, 100 + given));
            given += 1;
        }
    }
    let all = Request { phases };
    let chosen = keeper.take(&all);
    let shown = |chosen: &Chosen| -> u64 {
        chosen.notes.iter().map(|notes| notes.events.len() as u64).sum::<u64>() + chosen.spans.len() as u64
    };
    let counted: u64 = chosen.notes.iter().map(|notes| notes.left_out).sum();
    assert_eq!(shown(&chosen) + counted + keeper.no_room, given, "each is shown or counted, and once");
    // Phases without waits left have no count.
    assert_eq!((counted > 0, keeper.no_room), (true, 100), "{counted} by spans");
    assert!(shown(&chosen) <= MOST as u64, "{}", shown(&chosen));
    // The last ones were longest: none of them was left out.
    let last =
        chosen.notes.iter().filter(|notes| notes.events.iter().any(|it| it.start_ns % 1_000_000 == 20_000));
    assert_eq!(last.count(), 1_000);
    assert_eq!(shown(&keeper.take(&all)), 0);
}

#[test]
fn room_comes_back_with_each_request() {
    let mut keeper = Keeper::default();
    for number in 0..200 {
        let request = request(number, 1);
        (1..=50).for_each(|at| keeper.add(wait(&request.phases[0], at * 10_000, 5_000)));
        let chosen = keeper.take(&request);
        assert_eq!((chosen.notes[0].events.len(), chosen.notes[0].left_out), (EVENTS, 50 - EVENTS as u64));
    }
    assert_eq!(keeper.no_room, 0);
}

#[test]
fn waits_of_lost_requests_are_given_up_and_counted() {
    let mut keeper = Keeper::default();
    let request = request(1, 2);
    keeper.add(wait(&request.phases[1], 0, 200_000));
    keeper.forget();
    assert_eq!((keeper.take(&request).spans.len(), keeper.no_room), (0, 1));
    keeper.add(wait(&request.phases[1], 0, 200_000));
    assert_eq!((keeper.take(&request).spans.len(), keeper.no_room), (1, 1), "others have their room");
}

/// Waits of one thread: one after the other.
fn in_turn() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let step = (0_u64..2_000_000, prop_oneof![1_u64..90_000, 90_000_u64..3_000_000]);
    prop::collection::vec(step, 0..120).prop_map(|steps| {
        let mut at_ns = 0;
        let place = |(gap_ns, length_ns)| {
            let begin_ns = at_ns + gap_ns;
            at_ns = begin_ns + length_ns;
            (begin_ns, length_ns)
        };
        steps.into_iter().map(place).collect()
    })
}

proptest! {
    /// Every wait of a phase is a span, an event, or counted; no other rule than their lengths decides.
    #[test]
    fn each_wait_is_shown_or_counted(waits in in_turn(), duration_ns in 1_u64..200_000_000) {
        let phase = Phase { duration_ns, ..long_phase() };
        let all: Vec<Wait> = waits.iter().map(|&(after_ns, length_ns)| wait(&phase, after_ns, length_ns)).collect();
        let chosen = chosen(&alone(&phase), all.iter().cloned());
        let (spans, events, left_out) = lengths(&chosen);
        prop_assert_eq!((spans.len() + events.len()) as u64 + left_out, all.len() as u64);
        prop_assert!(spans.len() <= SPANS && events.len() <= EVENTS);
        let matters = |wait: &&Wait| wait.duration_ns >= LEAST_NS && wait.duration_ns * 100 >= duration_ns;
        prop_assert!(chosen.spans.iter().all(|(_, wait)| matters(&wait) && all.contains(wait)));
        // Longest first: no event is longer than the shortest span, unless that sticks out or the spans are
        // full.
        let seen: Vec<&Wait> = all.iter().filter(|wait| inside(wait, &phase).is_some()).collect();
        if all.len() <= SPANS + EVENTS {
            prop_assert_eq!(spans.len(), seen.iter().copied().filter(matters).count().min(SPANS));
            prop_assert_eq!(left_out as usize, all.len() - seen.len() + (seen.len() - spans.len()).saturating_sub(EVENTS));
        }
        let longest_event = events.iter().max().copied().unwrap_or(0);
        prop_assert!(spans.len() < SPANS || spans.iter().all(|&span| span >= longest_event));
    }

    /// Their order of arrival does not matter.
    #[test]
    fn the_order_of_waits_decides_nothing(
        (waits, shuffled) in in_turn().prop_flat_map(|waits| (Just(waits.clone()), Just(waits).prop_shuffle())),
    ) {
        let phase = long_phase();
        let of = |waits: &[(u64, u64)]| {
            let chosen = chosen(&alone(&phase), waits.iter().map(|&(at, length)| wait(&phase, at, length)));
            (chosen.spans, chosen.notes)
        };
        prop_assert_eq!(of(&waits), of(&shuffled));
    }
}
