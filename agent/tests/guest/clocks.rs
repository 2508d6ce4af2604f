//! The wall clock is set while marked threads run: an hour forwards, an hour back. Accounts and durations
//! follow the monotonic clock; the wall time of a phase follows the last pair of clocks in the manifest
//! before it.

use std::{thread::sleep, time::Duration};

use guestscope::clock::ClockPair;
use nix::{
    sys::time::{TimeSpec, TimeValLike as _},
    time::{ClockId, clock_gettime, clock_settime},
};

use crate::{
    disposable::{holds_while, is_ours},
    folder::Seen,
};

pub(crate) const HOUR_S: i64 = 3600;
/// Time before and after each change.
const BETWEEN: Duration = Duration::from_millis(50);
/// Largest difference between two readings of the same clocks: they are slewed, and setting takes a system
/// call.
const SLACK_NS: u64 = 1_000_000_000;

pub(crate) fn step(seconds: i64) {
    let clock = ClockId::CLOCK_REALTIME;
    let now = clock_gettime(clock).expect("it can be read");
    clock_settime(clock, now + TimeSpec::seconds(seconds)).expect("root may set it");
}

#[test]
fn the_wall_clock_is_set() {
    let test = "clocks::the_wall_clock_is_set";
    if !is_ours(test) {
        return;
    }
    let before = ClockPair::now();
    let cycle = || {
        for seconds in [HOUR_S, -HOUR_S] {
            step(seconds);
            sleep(BETWEEN);
        }
        1
    };
    holds_while(test, cycle, |seen| check_wall_times(seen, before));
}

/// Every phase begins at a time that the wall clock showed at that moment, before or after it was set.
fn check_wall_times(seen: &Seen, before: ClockPair) {
    let hour_ns = HOUR_S.unsigned_abs() * 1_000_000_000;
    let clocks = &seen.manifest.clocks;
    assert!(clocks.len() >= 2, "at the start and at the end: {clocks:?}");
    for phase in seen.requests.iter().flat_map(|request| &request.phases) {
        let wall_ns = seen.manifest.wall_ns(phase.start_ns);
        let unset_ns = phase.start_ns.wrapping_add_signed(before.offset_ns());
        let ahead_ns = wall_ns as i64 - unset_ns as i64;
        let is_shown = [0, hour_ns].iter().any(|set_ns| {
            ahead_ns.unsigned_abs().abs_diff(*set_ns) <= SLACK_NS && ahead_ns >= -(SLACK_NS as i64)
        });
        assert!(is_shown, "{ahead_ns} ns ahead: {phase:?} {clocks:?}");
    }
}
