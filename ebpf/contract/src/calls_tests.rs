//! Calls and returns as programs make them, with longjmp and exceptions: the open calls, and the lost ones.

use proptest::{collection::vec, prelude::*};

use super::*;

const NONE: Call = Call { frame: 0, function: 0, shown: 0 };

fn new() -> Calls {
    Calls { depth: 0, lost: 0, lost_all: 0, own: 0, stack: [NONE; OPEN_CALLS] }
}

/// A thread's calls, as a program makes them.
struct Thread(Calls);

impl Thread {
    fn call(&mut self, function: u32, frame: u64) -> (u64, u64, u64) {
        let call = Call { frame, function, shown: 1 };
        // SAFETY: a whole value.
        told(unsafe { enter(&raw mut self.0, frame, call, |_| {}) })
    }

    fn hidden(&mut self, function: u32, frame: u64) -> (u64, u64, u64) {
        // SAFETY: a whole value.
        told(unsafe { enter(&raw mut self.0, frame, Call { frame, function, shown: 0 }, |_| {}) })
    }

    fn place(&mut self, function: u32, at: u64) -> (u64, u64, u64) {
        // SAFETY: a whole value.
        told(unsafe { enter(&raw mut self.0, at, Call { frame: PLACE, function, shown: 1 }, |_| {}) })
    }

    fn ret(&mut self, function: u32, at: u64) -> (u64, u64, u64) {
        // SAFETY: a whole value.
        told(unsafe { leave(&raw mut self.0, at, function, |_| {}) })
    }
}

fn told(found: Found) -> (u64, u64, u64) {
    (found.own(), found.lost(), found.lost_calls())
}

#[test]
fn calls_that_nest_end_in_turn() {
    let mut thread = Thread(new());
    assert_eq!(thread.call(1, 100), (1, 0, 0));
    assert_eq!(thread.call(1, 90), (2, 0, 0), "a function calls itself");
    assert_eq!(thread.ret(1, 90), (2, 0, 0));
    assert_eq!(thread.ret(1, 100), (1, 0, 0));
    assert_eq!(thread.ret(1, 100), (0, 0, 0), "nothing is open");
}

#[test]
fn a_jump_out_of_calls_loses_their_ends_at_the_next_event() {
    let mut thread = Thread(new());
    thread.call(1, 100);
    thread.call(2, 90);
    thread.call(3, 80);
    assert_eq!(thread.call(4, 95), (2, 2, 2), "both that lie below are gone");
    thread.call(5, 70);
    assert_eq!(thread.ret(1, 100), (1, 2, 2), "a return ends what is inside");
    thread.call(1, 100);
    assert_eq!(thread.call(1, 100), (1, 1, 1), "the same frame again");
    assert_eq!(thread.ret(9, 200), (0, 1, 1), "a return of a call that is not known");
}

#[test]
fn what_is_not_shown_is_followed_all_the_same() {
    let mut thread = Thread(new());
    assert_eq!(thread.hidden(1, 100), (0, 0, 0));
    assert_eq!(thread.call(2, 90), (2, 0, 0));
    assert_eq!(thread.ret(2, 90), (2, 0, 0));
    assert_eq!(thread.ret(1, 100), (0, 0, 0));
    thread.hidden(1, 90);
    assert_eq!(thread.call(2, 100), (1, 0, 0), "nobody misses its end");
}

#[test]
fn places_are_ended_by_their_own_function_and_by_returns_around_them() {
    let mut thread = Thread(new());
    thread.call(1, 100);
    assert_eq!(thread.place(7, 60), (2, 0, 0));
    assert_eq!(thread.call(2, 95), (3, 0, 0), "it is not taken for gone");
    thread.ret(2, 95);
    assert_eq!(thread.ret(7, PLACE), (2, 0, 0));
    assert_eq!(thread.ret(7, PLACE), (0, 0, 0), "one that is not open");
    thread.place(7, 60);
    assert_eq!(thread.ret(1, 100), (1, 2, 1));
}

#[test]
fn more_than_there_is_room_for_is_left_out() {
    let mut thread = Thread(new());
    for depth in 0..100_u64 {
        let (own, ..) = thread.call(1, 10_000 - depth);
        assert_eq!(own, if depth < OPEN_CALLS as u64 { depth + 1 } else { 0 });
    }
    for depth in (0..100_u64).rev() {
        let (own, lost, _) = thread.ret(1, 10_000 - depth);
        assert_eq!((own, lost), (if depth < OPEN_CALLS as u64 { depth + 1 } else { 0 }, 0));
    }
    assert_eq!(thread.0.depth, 0);
}

#[test]
fn tokens_are_no_roots_and_differ() {
    for slot in [1, 4095, 0x2000, u16::MAX].map(carrier_of).into_iter().chain([1, u64::from(GOROUTINES)]) {
        for place in [1, 32] {
            assert!(!crate::is_root_token(token(slot, place)), "{slot} {place}");
        }
    }
    assert_ne!(token(1, 32), token(2, 1));
    assert!((1..=u64::from(GOROUTINES)).all(|carrier| carrier != carrier_of(0)));
}

proptest! {
    /// Against a program that calls, returns and throws: each call that returns is found by its return, and
    /// each other one is reported lost exactly once, before the end of anything that begins after it.
    #[test]
    fn no_return_is_taken_for_another(turns in vec((0..10_u32, 1..4_u32), 1..300)) {
        let mut thread = Thread(new());
        // Function, frame, and whether an exception has left it.
        let mut stack: Vec<(u32, u64)> = Vec::new();
        let mut gone = 0_u64;
        for (what, function) in turns {
            let top = stack.last().map_or(1_000_000, |top| top.1);
            let (own, lost) = match what {
                0..=4 if stack.len() < OPEN_CALLS => {
                    let (own, _, lost) = thread.call(function, top - 16);
                    stack.push((function, top - 16));
                    prop_assert_eq!(own, stack.len() as u64);
                    (own, lost)
                }
                5 if stack.len() > 1 => {
                    let keep = stack.len() - 1 - (function as usize).min(stack.len() - 1);
                    let before = stack.len();
                    stack.truncate(keep + 1);
                    gone += (before - stack.len()) as u64;
                    continue;
                }
                _ => {
                    let Some((function, frame)) = stack.pop() else { continue };
                    let (own, _, lost) = thread.ret(function, frame);
                    prop_assert_eq!(own, stack.len() as u64 + 1);
                    (own, lost)
                }
            };
            prop_assert!(own > 0);
            // A call right after a lost one begins in the same frame as that one, or above.
            prop_assert!(lost <= gone);
            gone -= lost;
            prop_assert_eq!(thread.0.depth, stack.len() as u64 + gone);
        }
    }
}
