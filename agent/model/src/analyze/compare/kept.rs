//! The parts of a request, packed: most numbers of a split are zero, and tens of thousands of requests are
//! kept.
//!
//! Unpacks to the same splits. A number takes 16 bytes.

use crate::analyze::{
    split::{CELLS, Split},
    tree::PlaceId,
};

/// The splits of a request by place, each place once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(Box<[(u32, u64)]>);

impl Parts {
    /// There are at most 64 places, and any number of phases.
    pub(super) fn of(own: &[(PlaceId, Split)]) -> Self {
        let mut merged: Vec<(PlaceId, Split)> = Vec::new();
        for (place, split) in own {
            match merged.iter_mut().find(|(known, _)| known == place) {
                Some((_, sum)) => sum.add(split),
                None => merged.push((*place, *split)),
            }
        }
        let numbers = merged.iter().flat_map(|(place, split)| {
            split
                .into_cells()
                .enumerate()
                .filter(|(_, value)| *value != 0)
                .map(move |(at, value)| ((place * CELLS + at) as u32, value))
        });
        Self(numbers.collect())
    }

    /// Number of stored values.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All splits, in the order of their places.
    pub(super) fn splits(&self) -> impl Iterator<Item = (PlaceId, Split)> {
        let of_place = |(key, _): &(u32, u64)| *key as usize / CELLS;
        self.0.chunk_by(move |a, b| of_place(a) == of_place(b)).map(move |numbers| {
            let mut split = Split::default();
            for (key, value) in numbers {
                if let Some(cell) = split.cells_mut().nth(*key as usize % CELLS) {
                    *cell = *value;
                }
            }
            (numbers.first().map_or(0, of_place), split)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_as_it_was() {
        let split = |first: usize, last: u64| {
            let mut split = Split::default();
            *split.cells_mut().nth(first).unwrap() = 7;
            split.own_code = last;
            split
        };
        let own = [(3, split(0, 5)), (0, split(CELLS - 2, 0)), (3, split(1, 6)), (63, split(2, u64::MAX))];
        let mut both = split(0, 5);
        both.add(&split(1, 6));
        let parts = Parts::of(&own);
        assert_eq!(parts.len(), 3 + 1 + 2);
        assert_eq!(
            parts.splits().collect::<Vec<_>>(),
            [(3, both), (0, split(CELLS - 2, 0)), (63, split(2, u64::MAX))],
        );
    }
}
