//! Times of several folders on one clock.
//!
//! Folders of one boot have the same monotonic clock, and are compared by it to the nanosecond. Others have
//! the wall in common, as exactly as the guests keep it.

use crate::{
    clock::{self, ClockPair},
    folder::Manifest,
};

/// Two clocks of one boot whose distance from the wall differs by more are not one: guests that were started
/// from one snapshot have the boot's number in common. A wall clock is seldom set by as much.
const ONE_CLOCK_NS: u64 = 100_000_000;
/// Readings of both clocks that are kept of a folder: one for each ten minutes of a day and a half.
const MOST_PAIRS: usize = 256;

/// A clock.
#[derive(Clone, Debug)]
struct Clock {
    boot_id: String,
    /// Readings of it and the wall, in their order.
    pairs: Vec<ClockPair>,
}

/// The clocks of all folders.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks(Vec<Clock>);

impl Clocks {
    /// Takes a folder, and returns the number of its clock.
    pub(super) fn add(&mut self, manifest: &Manifest) -> usize {
        let all = &manifest.clocks;
        let every = all.len().div_ceil(MOST_PAIRS).max(1);
        let pairs: Vec<ClockPair> = all.iter().step_by(every).map(|&pair| pair.into()).collect();
        let is_known = !manifest.boot_id.is_empty() && manifest.restored.is_empty();
        let is_one = |clock: &Clock| {
            let offset_ns = |pairs: &[ClockPair]| pairs.first().map_or(0, offset_ns);
            let apart_ns = offset_ns(&clock.pairs).abs_diff(offset_ns(&pairs));
            clock.boot_id == manifest.boot_id && apart_ns <= ONE_CLOCK_NS
        };
        let at = self.0.iter().position(|clock| is_known && is_one(clock)).unwrap_or(self.0.len());
        if at == self.0.len() {
            // One that was restored shares its clock with no other.
            let boot_id = if is_known { manifest.boot_id.clone() } else { String::new() };
            self.0.push(Clock { boot_id, pairs: Vec::new() });
        }
        let clock = &mut self.0[at];
        clock.pairs.extend(pairs);
        clock.pairs.sort_by_key(|pair| pair.monotonic_ns);
        at
    }

    /// What to add to a time of this clock to compare it with times of all others, ns.
    pub(super) fn offset_ns(&self, clock: usize, monotonic_ns: u64) -> i64 {
        match self.0.get(clock) {
            Some(clock) if self.0.len() > 1 => {
                offset_ns(&clock::in_force(&clock.pairs, monotonic_ns, |&pair| pair))
            }
            Some(_) | None => 0,
        }
    }
}

/// What to add to a monotonic time to get wall time, ns. A folder may hold anything.
const fn offset_ns(pair: &ClockPair) -> i64 {
    pair.wall_ns.wrapping_sub(pair.monotonic_ns).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder;

    const DAY_NS: u64 = 86_400_000_000_000;

    fn manifest(boot_id: &str, readings: &[(u64, u64)]) -> Manifest {
        let clocks =
            readings.iter().map(|&(monotonic_ns, wall_ns)| folder::ClockPair { monotonic_ns, wall_ns });
        Manifest { boot_id: boot_id.to_owned(), clocks: clocks.collect(), ..Manifest::default() }
    }

    #[test]
    fn folders_of_one_boot_have_one_clock() {
        let mut clocks = Clocks::default();
        let first = clocks.add(&manifest("a", &[(5, DAY_NS)]));
        let second = clocks.add(&manifest("a", &[(7_000_000_000, DAY_NS + 7_000_000_000)]));
        assert_eq!((first, second, clocks.offset_ns(0, 10)), (0, 0, 0), "its own times compare");
        let other = clocks.add(&manifest("b", &[(0, 2 * DAY_NS)]));
        assert_eq!(other, 1);
        assert_eq!(clocks.offset_ns(1, 10), 2 * DAY_NS as i64);
        assert_eq!(clocks.offset_ns(0, 10), DAY_NS as i64 - 5);
        assert_eq!(clocks.offset_ns(0, 8_000_000_000), DAY_NS as i64, "the reading before it");
    }

    #[test]
    fn a_copied_guest_and_an_unknown_boot_have_clocks_of_their_own() {
        let mut clocks = Clocks::default();
        let mut restored = manifest("a", &[(0, DAY_NS)]);
        restored.restored.push(folder::RestoredRecord::default());
        let all = [
            clocks.add(&manifest("a", &[(0, DAY_NS)])),
            clocks.add(&manifest("a", &[(0, DAY_NS + 1_000_000_000)])),
            clocks.add(&manifest("", &[(0, DAY_NS)])),
            clocks.add(&manifest("", &[(0, DAY_NS)])),
            clocks.add(&restored),
            clocks.add(&manifest("a", &[(0, DAY_NS)])),
        ];
        assert_eq!(all, [0, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn clocks_may_say_anything() {
        let mut clocks = Clocks::default();
        clocks.add(&manifest("a", &[(u64::MAX, 0), (0, u64::MAX)]));
        clocks.add(&manifest("b", &[]));
        assert_eq!(clocks.offset_ns(1, 5), 0);
        assert_eq!(clocks.offset_ns(7, 5), 0);
        let _ = clocks.offset_ns(0, u64::MAX);
    }
}
