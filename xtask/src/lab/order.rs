//! Order of the runs: every cell once in random order, then every cell again in another order.
//!
//! Platforms take turns, so drift of the machine over hours affects all alike (randomised multiple
//! interleaved trials: Abedi and Brecht 2017). The seed decides the order, so that an interrupted lab
//! continues in the same order.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// One run: a cell and its repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trial {
    pub(super) repetition: u32,
    /// Index of the cell in the plan.
    pub(super) cell: usize,
}

impl Trial {
    /// Whether the run gets its own guest, if this share of the runs does: of any `n` consecutive runs of a
    /// cell, `share * n` to within one. Cells begin at different places, so that the fresh guests are spread.
    pub(super) fn is_fresh(self, share: f64) -> bool {
        // A tenth is not exact in binary, but ten tenths must be one.
        let so_far = |runs: f64| (runs * share + 1e-9).floor();
        let place = f64::from(self.repetition) + self.cell as f64;
        so_far(place + 1.0) > so_far(place)
    }
}

/// All runs of a plan.
pub(super) fn trials(cells: usize, repetitions: u32, seed: u64) -> Vec<Trial> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut all = Vec::with_capacity(cells * repetitions as usize);
    for repetition in 0..repetitions {
        let mut block: Vec<usize> = (0..cells).collect();
        for last in (1..cells).rev() {
            // The bias of the remainder is below 2^-40 for any realistic number of cells.
            let other = (random.next_u64() % (last as u64 + 1)) as usize;
            block.swap(last, other);
        }
        all.extend(block.into_iter().map(|cell| Trial { repetition, cell }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Trial, trials};

    #[test]
    fn every_block_has_every_cell_once() {
        let all = trials(7, 5, 1);
        assert_eq!(all.len(), 35);
        for (repetition, block) in all.chunks(7).enumerate() {
            let mut cells: Vec<usize> = block.iter().map(|trial| trial.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..7).collect::<Vec<_>>());
            assert!(block.iter().all(|trial| trial.repetition == repetition as u32));
        }
    }

    #[test]
    fn the_seed_alone_decides() {
        assert_eq!(trials(9, 4, 7), trials(9, 4, 7));
        assert_ne!(trials(9, 4, 7), trials(9, 4, 8));
        let all = trials(9, 4, 7);
        assert_ne!(
            all[..9].iter().map(|trial| trial.cell).collect::<Vec<_>>(),
            all[9..18].iter().map(|trial| trial.cell).collect::<Vec<_>>()
        );
    }

    /// Otherwise an interrupted lab would continue in another order after an update.
    #[test]
    fn the_order_of_a_seed_stays_as_it_is() {
        let cells: Vec<usize> = trials(5, 2, 7).into_iter().map(|trial| trial.cell).collect();
        assert_eq!(cells, [4, 1, 3, 0, 2, 2, 0, 3, 1, 4]);
    }

    #[test]
    fn the_share_of_fresh_guests_is_kept() {
        let fresh = |share: f64, cell| {
            (0..10).filter(|&repetition| Trial { repetition, cell }.is_fresh(share)).count()
        };
        for cell in 0..7 {
            assert_eq!([0.0, 0.1, 0.2, 0.5, 1.0].map(|share| fresh(share, cell)), [0, 1, 2, 5, 10]);
        }
        let in_a_block = (0..10).filter(|&cell| Trial { repetition: 3, cell }.is_fresh(0.2)).count();
        assert_eq!(in_a_block, 2);
    }

    /// Each cell is at each place about equally often: 4,000 blocks of 4, 1,000 expected.
    #[test]
    fn no_place_belongs_to_a_cell() {
        let mut counts = [[0; 4]; 4];
        for (index, trial) in trials(4, 4_000, 3).into_iter().enumerate() {
            counts[index % 4][trial.cell] += 1;
        }
        for count in counts.into_iter().flatten() {
            assert!((850..=1_150).contains(&count), "{counts:?}");
        }
    }
}
