//! Schedule of the faults, and their sizes: a pure function of the seed, so that runs on two platforms suffer
//! the same. Exactly one request of every N is hit, at a place in its N that the seed decides: no periodic
//! event can keep in step with it.

use crate::data::random::Random;

/// Stream of random numbers for places; those for sizes follow, one per part of a hit.
const PLACES: u64 = 0x5741;

/// The plan of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub seed: u64,
    /// One request of `every` is hit.
    pub every: u64,
    /// Largest distance of a size from the one asked for, in percent of it.
    pub spread_percent: u64,
}

impl Schedule {
    pub fn hits(&self, request: u64) -> bool {
        let every = self.every.max(1);
        let place = Random::new(self.seed ^ (request / every), PLACES).u64() % every;
        request % every == place
    }

    /// Size of the `part`-th fault of a hit request, around the middle `asked`.
    pub fn size(&self, request: u64, part: usize, asked: u64) -> u64 {
        let (least, most) = self.bounds(asked);
        let stream = PLACES + 1 + part as u64;
        least + Random::new(self.seed ^ request, stream).u64() % (most - least).saturating_add(1)
    }

    /// The smallest and the largest size.
    pub fn bounds(&self, asked: u64) -> (u64, u64) {
        let away = u128::from(asked) * u128::from(self.spread_percent.min(100)) / 100;
        let away = u64::try_from(away).unwrap_or(asked);
        (asked - away, asked.saturating_add(away))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Schedule;

    proptest! {
        #[test]
        fn one_request_of_every_n_is_hit(seed: u64, every in 1..200_u64, block in 0..1_000_000_u64) {
            let schedule = Schedule { seed, every, spread_percent: 0 };
            let hits = (0..every).filter(|place| schedule.hits(block * every + place)).count();
            prop_assert_eq!(hits, 1);
        }

        #[test]
        fn the_seed_decides_everything(seed: u64, every in 1..200_u64, request: u64, spread_percent in 0..=100_u64) {
            let (one, other) = (0, 1);
            let schedule = [Schedule { seed, every, spread_percent }; 2];
            prop_assert_eq!(schedule[one].hits(request), schedule[other].hits(request));
            prop_assert_eq!(schedule[one].size(request, 1, 1000), schedule[other].size(request, 1, 1000));
        }

        #[test]
        fn sizes_stay_in_their_bounds(seed: u64, request: u64, asked: u64, spread_percent in 0..=100_u64) {
            let schedule = Schedule { seed, every: 1, spread_percent };
            let (least, most) = schedule.bounds(asked);
            prop_assert!((least..=most).contains(&schedule.size(request, 0, asked)));
            prop_assert!((least..=most).contains(&asked));
            if spread_percent == 0 {
                prop_assert_eq!((least, most), (asked, asked));
            }
        }
    }

    #[test]
    fn places_and_sizes_vary() {
        let schedule = Schedule { seed: 1, every: 10, spread_percent: 50 };
        let hit: Vec<u64> = (0..1000).filter(|request| schedule.hits(*request)).collect();
        let mut places: Vec<u64> = hit.iter().map(|request| request % 10).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 10, "every place occurs in 100 blocks");
        let sizes: Vec<u64> = hit.iter().map(|request| schedule.size(*request, 0, 1_000_000)).collect();
        assert!(sizes.iter().any(|size| *size < 700_000) && sizes.iter().any(|size| *size > 1_300_000));
        let other = Schedule { seed: 2, ..schedule };
        assert!((0..1000).any(|request| schedule.hits(request) != other.hits(request)));
    }
}
