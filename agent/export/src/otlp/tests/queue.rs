//! The bounds of the queue, its books, and the delays between attempts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use rstest::rstest;

use super::request;
use crate::{
    otlp::{
        Limits, LiveVerdict,
        backoff::Backoff,
        patience::Patience,
        queue::{Due, Queue},
        waits::Chosen,
        worker::resend_pause,
    },
    phase::{Phase, Request},
};

fn queue(queue_spans: usize, queue_bytes: usize) -> Queue {
    let linger = Duration::from_hours(1);
    // No thread would make room.
    let patience = Duration::ZERO;
    Queue::new(Limits { queue_spans, queue_bytes, batch_spans: 10, linger, patience, ..Limits::default() })
}

/// Offers requests of so many spans each. Returns how many spans were dropped.
fn dropped(queue: &Queue, requests: &[u64]) -> u64 {
    for &phases in requests {
        queue.offer(request(1, phases), Chosen::default(), LiveVerdict::default(), 0);
    }
    queue.read().0.dropped
}

#[rstest]
#[case::all_fit(10, usize::MAX, &[4, 4, 2], 0)]
#[case::too_many_spans(10, usize::MAX, &[4, 4, 4], 4)]
#[case::a_smaller_one_still_fits(10, usize::MAX, &[4, 4, 4, 2], 4)]
#[case::too_many_bytes(usize::MAX, 6 * size_of::<Phase>(), &[4, 4, 4], 8)]
#[case::a_giant_fits_alone(10, usize::MAX, &[50, 1], 1)]
#[case::a_giant_does_not_push_in(10, usize::MAX, &[1, 50], 50)]
fn bounds(#[case] spans: usize, #[case] bytes: usize, #[case] requests: &[u64], #[case] expected: u64) {
    assert_eq!(dropped(&queue(spans, bytes), requests), expected);
}

#[test]
fn room_comes_back() {
    let queue = queue(8, usize::MAX);
    assert_eq!(dropped(&queue, &[4, 4, 4]), 4);
    assert_eq!(queue.pop().map(Iterator::count), Some(4));
    assert_eq!(dropped(&queue, &[4]), 4, "not one more");
    assert_eq!(queue.read().0.pending(), 12, "what was taken out is still on its way");
}

#[test]
fn it_is_due_with_a_full_batch_or_at_the_end() {
    let queue = queue(100, usize::MAX);
    assert_eq!(queue.due(), Due::Never);
    dropped(&queue, &[4, 4]);
    assert!(matches!(queue.due(), Due::At(_)), "it may linger");
    dropped(&queue, &[4]);
    assert_eq!(queue.due(), Due::Now, "a batch is full");
    queue.pop();
    assert!(matches!(queue.due(), Due::At(_)));
    queue.finish_by(Instant::now());
    assert_eq!(queue.due(), Due::Now, "the end has come");
}

#[test]
fn half_full_is_pressure() {
    let queue = queue(16, usize::MAX);
    dropped(&queue, &[4, 4]);
    assert!(!queue.is_under_pressure());
    dropped(&queue, &[1]);
    assert!(queue.is_under_pressure());
}

#[test]
fn what_is_pending_at_the_end_is_dropped_and_stays_so() {
    let queue = queue(100, usize::MAX);
    dropped(&queue, &[4, 4]);
    queue.close();
    assert_eq!(dropped(&queue, &[3]), 11);
    // A thread that was given up no longer changes the counters.
    queue.book(|books| books.sent += 8);
    let (books, error) = queue.read();
    assert_eq!((books.offered, books.sent, books.pending()), (11, 0, 0));
    assert_eq!(error.as_deref(), Some("offered after the end"));
}

#[test]
fn a_request_without_phases_is_nothing() {
    let queue = queue(10, usize::MAX);
    let empty = Request { phases: Vec::new() };
    queue.offer(Arc::new(empty), Chosen::default(), LiveVerdict::default(), 0);
    assert_eq!(queue.due(), Due::Never);
}

/// More than fits comes at once: it waits until some has left, even where the queue is not half full.
#[rstest]
#[case::as_fast_as_it_leaves(&[4; 40])]
#[case::a_giant_does_not_fit_beside_it(&[4, 50, 4, 50])]
fn what_does_not_fit_waits_for_what_leaves(#[case] requests: &[u64]) {
    let limits = Limits { queue_spans: 10, patience: Duration::from_secs(30), ..Limits::default() };
    let queue = Queue::new(limits);
    let all: u64 = requests.iter().sum();
    std::thread::scope(|scope| {
        let offering = scope.spawn(|| dropped(&queue, requests));
        let mut left = 0;
        while left < all as usize {
            let trace = if queue.is_under_pressure() || offering.is_finished() { queue.pop() } else { None };
            left += trace.map_or(0, Iterator::count);
            std::thread::yield_now();
        }
        assert_eq!(offering.join().expect("it does not panic"), 0);
    });
}

/// A disk that takes nothing is not waited for.
#[test]
fn a_disk_that_fails_is_not_waited_for() {
    let queue =
        Queue::new(Limits { queue_spans: 10, patience: Duration::from_hours(1), ..Limits::default() });
    queue.stuck();
    assert_eq!(dropped(&queue, &[10, 4, 4]), 8);
}

/// Nor do offering threads wait that have no time.
#[test]
fn those_in_a_hurry_wait_for_no_room() {
    let queue =
        Queue::new(Limits { queue_spans: 10, patience: Duration::from_hours(1), ..Limits::default() });
    queue.hurry(true);
    assert_eq!(dropped(&queue, &[10, 4, 4]), 8);
}

/// A disk that hangs is waited for as long as patience lasts.
#[test]
fn a_disk_that_hangs_is_not_waited_for_without_end() {
    let queue =
        Queue::new(Limits { queue_spans: 10, patience: Duration::from_millis(20), ..Limits::default() });
    assert_eq!(dropped(&queue, &[10, 4, 4, 4]), 12);
}

#[test]
fn patience_is_spent_and_grows_again() {
    let second = Duration::from_secs(1);
    let begun = Instant::now();
    let mut patience = Patience::new(second * 5);
    assert_eq!(patience.left(begun), second * 5);
    patience.spend(begun, begun + second * 3);
    assert_eq!(patience.left(begun + second * 3), second * 2);
    patience.spend(begun + second * 3, begun + second * 6);
    assert_eq!(patience.left(begun + second * 6), Duration::ZERO, "it cannot be in debt");
    assert_eq!(patience.left(begun + second * 8), second, "half of the time that passes");
    assert_eq!(patience.left(begun + second * 100), second * 5, "and no more than the store holds");
}

#[rstest]
#[case::little_waits(512, 10_000, 10_000, Duration::from_micros(51_200))]
#[case::much_waits(512, 7_200_000, 10_000, Duration::from_nanos(21_333_333))]
#[case::no_rate(1, 0, 0, Duration::from_secs(1))]
fn the_file_is_sent_faster_where_more_waits_in_it(
    #[case] spans: u64,
    #[case] waiting: u64,
    #[case] least_per_s: u32,
    #[case] expected: Duration,
) {
    assert_eq!(resend_pause(spans, waiting, least_per_s).as_micros(), expected.as_micros());
}

proptest! {
    /// Half to all of a doubling delay, at most 30 s, and no less than a sane collector asks for.
    #[test]
    fn delays(first_ms in 1_u64..1_000, asked in prop::collection::vec(prop::option::of(0_u64..400), 1..20)) {
        let mut backoff = Backoff::new(Duration::from_millis(first_ms));
        let mut most = Duration::from_millis(first_ms);
        for asked in asked {
            let asked = asked.map(Duration::from_secs);
            let delay = backoff.delay(asked);
            let least = (most / 2).max(asked.unwrap_or_default().min(Duration::from_mins(5)));
            prop_assert!(least <= delay && delay <= most.max(least), "{delay:?} of {most:?}, asked {asked:?}");
            most = (most * 2).min(Duration::from_secs(30));
        }
        backoff.reset();
        prop_assert!(backoff.delay(None) <= Duration::from_millis(first_ms));
    }
}
