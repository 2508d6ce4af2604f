//! Which phase was the innermost one of each thread during the last seconds: work of a GPU is told after it
//! has ended, and names the thread and the time of the call that asked for it.
//!
//! Keeps nothing unless it is asked to.

use std::collections::VecDeque;

use super::table::Table;

/// Turns older than this are forgotten. CUPTI keeps records back until all work beside them has ended.
const KEPT_NS: u64 = 30_000_000_000;
/// Most turns of all threads: 24 bytes each.
const MOST: usize = 1 << 18;

/// A phase was the innermost one from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    at_ns: u64,
    /// 0 outside all phases.
    pub(super) phase: u64,
    pub(super) root: u64,
}

/// The turns of all threads, by the numbers of process and thread: two threads that have one number have it
/// one after the other.
#[derive(Debug, Default)]
pub(super) struct Turns {
    is_kept: bool,
    threads: Table<(u32, u32), VecDeque<Turn>>,
    kept: usize,
}

impl Turns {
    /// Keeps turns from now on.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Another phase is the innermost one of this thread, or none.
    pub(super) fn turn(&mut self, thread: (u32, u32), at_ns: u64, top: Option<(u64, u64)>) {
        if self.kept >= MOST {
            self.make_room(at_ns);
        }
        let (phase, root) = top.unwrap_or_default();
        let turns = self.threads.entry(thread).or_default();
        let before = turns.len();
        while turns.get(1).is_some_and(|next| next.at_ns.saturating_add(KEPT_NS) < at_ns) {
            turns.pop_front();
        }
        // An edge that ends one phase begins the next one: the last word counts.
        match turns.back_mut().filter(|last| last.at_ns >= at_ns) {
            Some(last) => (last.phase, last.root) = (phase, root),
            None => turns.push_back(Turn { at_ns, phase, root }),
        }
        self.kept = self.kept + turns.len() - before;
    }

    /// The phase of this thread at this time.
    pub(super) fn at(&self, thread: (u32, u32), at_ns: u64) -> Option<Turn> {
        let turns = self.threads.get(&thread)?;
        let after = turns.partition_point(|turn| turn.at_ns <= at_ns);
        let turn = *turns.get(after.checked_sub(1)?)?;
        (turn.phase != 0).then_some(turn)
    }

    /// Forgets threads without a turn for long; if that is not enough, the older half of each.
    fn make_room(&mut self, now_ns: u64) {
        self.threads
            .retain(|_, turns| turns.back().is_some_and(|last| last.at_ns.saturating_add(KEPT_NS) >= now_ns));
        if self.threads.values().map(VecDeque::len).sum::<usize>() >= MOST / 2 {
            for turns in self.threads.values_mut() {
                turns.drain(..turns.len() / 2);
            }
        }
        self.kept = self.threads.values().map(VecDeque::len).sum();
        if self.kept >= MOST {
            self.threads.clear();
            self.kept = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_turn_before_a_time_counts() {
        let mut turns = Turns::default();
        for (at_ns, top) in [(10, Some((1, 1))), (20, Some((2, 1))), (30, None), (30, Some((3, 3)))] {
            turns.turn((1, 7), at_ns, top);
        }
        let phases = [(7, 9), (7, 10), (7, 19), (7, 20), (7, 31), (8, 20)];
        let found = phases.map(|(tid, at_ns)| turns.at((1, tid), at_ns).map(|turn| (turn.phase, turn.root)));
        assert_eq!(found, [None, Some((1, 1)), Some((1, 1)), Some((2, 1)), Some((3, 3)), None]);
        turns.turn((1, 7), 40, None);
        assert_eq!(turns.at((1, 7), 45), None);
    }

    proptest! {
        /// Against a list of all turns.
        #[test]
        fn turns_are_found(all in proptest::collection::vec((0_u32..3, 1_u64..50, 0_u64..4), 1..60)) {
            let (mut turns, mut list, mut now_ns) = (Turns::default(), Vec::new(), 0);
            for (tid, later_ns, phase) in all {
                now_ns += later_ns;
                turns.turn((1, tid), now_ns, (phase != 0).then_some((phase, phase)));
                list.push((tid, now_ns, phase));
            }
            for at_ns in 0..now_ns + 2 {
                for tid in 0..3 {
                    let last = list.iter().rev().find(|turn| turn.0 == tid && turn.1 <= at_ns);
                    let expected = last.map(|turn| turn.2).filter(|phase| *phase != 0);
                    prop_assert_eq!(turns.at((1, tid), at_ns).map(|turn| turn.phase), expected);
                }
            }
        }
    }

    #[test]
    fn any_number_of_turns_takes_little_memory() {
        let mut turns = Turns::default();
        for at in 0..3 * MOST as u64 {
            // Many threads, and one that is busy, all within the time that turns are kept.
            let tid = if at % 2 == 0 { 1 } else { at as u32 };
            turns.turn((1, tid), at, Some((at + 1, 1)));
        }
        let kept: usize = turns.threads.values().map(VecDeque::len).sum();
        assert!(kept == turns.kept && kept <= MOST, "{kept} {}", turns.kept);
        let late_ns = 10 * KEPT_NS;
        turns.turn((1, 1), late_ns, None);
        turns.turn((1, 1), late_ns + 1, Some((5, 5)));
        assert_eq!(turns.at((1, 1), late_ns + 1).map(|turn| turn.phase), Some(5));
    }
}
