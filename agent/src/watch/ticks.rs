//! What the agent had done by each of its last ticks: requests that it kept and left out, and the time that
//! this took.

use std::collections::VecDeque;

use super::rate::SAMPLES;
use crate::folder::KeptRecord;

/// Most ticks: those of two hours and a quarter, 330 KB.
const MOST: usize = 8192;

/// A tick: sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tick {
    /// CLOCK_MONOTONIC, ns.
    pub(super) at_ns: u64,
    /// Requests whose rows were kept.
    pub(super) kept: u64,
    /// Requests whose rows were not kept, also those that were not looked at.
    pub(super) left_out: u64,
    /// Time that rows took, without the flushes, ns.
    pub(super) rows_ns: u64,
    /// Time that reading, pairing, judging and counting requests took, ns.
    pub(super) looking_ns: u64,
}

/// The last ticks, the newest last.
#[derive(Debug, Default)]
pub(super) struct Ticks(VecDeque<Tick>);

impl Ticks {
    /// Adds one. Of those before, as many stay as tell of the last `keep_ns`, and those that the next
    /// decision rests on.
    pub(super) fn push(&mut self, tick: Tick, keep_ns: u64) {
        let is_old = |one: &Tick| one.at_ns.saturating_add(keep_ns) < tick.at_ns;
        // The first one that is kept is from before that time: counts since then need it.
        while self.0.len() >= MOST || self.0.len() > SAMPLES && self.0.get(1).is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back(tick);
    }

    /// The parts of a CPU that rows, with as much again for writing them, and looking at requests took over
    /// the last ten ticks.
    pub(super) fn spent(&self) -> (f64, f64) {
        let Some(last) = self.0.back() else { return (0.0, 0.0) };
        let first = self.0[self.0.len().saturating_sub(SAMPLES + 1)];
        let ns = last.at_ns.saturating_sub(first.at_ns).max(1) as f64;
        let part = |last_ns: u64, first_ns: u64| last_ns.saturating_sub(first_ns) as f64 / ns;
        (2.0 * part(last.rows_ns, first.rows_ns), part(last.looking_ns, first.looking_ns))
    }

    /// Which part of the requests of this time was kept; none if all were.
    pub(super) fn kept_within(&self, from_ns: u64, to_ns: u64) -> Option<KeptRecord> {
        let at = |at_ns: u64| {
            let before = self.0.iter().rev().find(|tick| tick.at_ns <= at_ns);
            before.or(self.0.front()).copied().unwrap_or_default()
        };
        let (begin, end) = (at(from_ns), at(to_ns));
        let (kept, left_out) =
            (end.kept.saturating_sub(begin.kept), end.left_out.saturating_sub(begin.left_out));
        let sample = kept as f64 / (kept + left_out).max(1) as f64;
        let record = KeptRecord { sample, sampled_out: left_out, ..KeptRecord::default() };
        (left_out > 0).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const KEEP_NS: u64 = 3 * 3600 * S;

    /// A hundred requests a second: all are kept at first, then one of four.
    fn ticks(seconds: u64) -> Ticks {
        let mut ticks = Ticks::default();
        for second in 0..seconds {
            let late = second.saturating_sub(20);
            let kept = (second - late) * 100 + late * 25;
            let tick = Tick {
                at_ns: second * S,
                kept,
                left_out: late * 75,
                rows_ns: kept * 10_000,
                looking_ns: second * 2_000_000,
            };
            ticks.push(tick, KEEP_NS);
        }
        ticks
    }

    #[test]
    fn time_is_that_of_the_last_ten_ticks() {
        let rounded = |(rows, pairing): (f64, f64)| [rows, pairing].map(|part| (part * 1e6).round() as u64);
        assert_eq!(rounded(Ticks::default().spent()), [0, 0]);
        assert_eq!(rounded(ticks(10).spent()), [2_000, 2_000], "1 ms a second, and as much again");
        assert_eq!(rounded(ticks(60).spent()), [500, 2_000]);
    }

    #[test]
    fn the_part_is_that_of_a_stretch() {
        let ticks = ticks(60);
        assert_eq!(ticks.kept_within(0, 15 * S), None);
        let kept = |from, to| ticks.kept_within(from * S, to * S).map(|kept| (kept.sample, kept.sampled_out));
        assert_eq!(kept(30, 40), Some((0.25, 750)));
        assert_eq!(kept(10, 30), Some((0.625, 750)));
        assert_eq!(kept(50, 1000), Some((0.25, 9 * 75)), "up to the last one");
    }

    #[test]
    fn they_are_bounded() {
        let ticks = ticks(10_000);
        assert_eq!(ticks.0.len(), MOST);
        assert_eq!(
            ticks.kept_within(0, 10_000 * S).map(|kept| kept.sampled_out),
            Some((MOST as u64 - 1) * 75)
        );
    }

    #[test]
    fn they_last_as_long_as_the_recorder() {
        let mut ticks = Ticks::default();
        for second in 0..1000 {
            ticks.push(Tick { at_ns: second * S, left_out: second, ..Tick::default() }, 100 * S);
        }
        assert_eq!((ticks.0.len(), ticks.0[0].at_ns), (102, 898 * S));
        assert_eq!(ticks.kept_within(899 * S, 999 * S).map(|kept| kept.sampled_out), Some(100));
        ticks.push(Tick { at_ns: 5000 * S, ..Tick::default() }, 100 * S);
        assert_eq!(ticks.0.len(), SAMPLES + 1, "a guest that was stopped: decisions need so many");
    }
}
