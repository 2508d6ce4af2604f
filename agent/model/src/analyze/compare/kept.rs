//! The parts of a request, packed: most numbers of a split are zero, and tens of thousands of requests are
//! kept.
//!
//! Unpacks to the same splits. A number takes 16 bytes.

use crate::analyze::{
    split::{BESIDE, CAUSES, Split},
    tree::PlaceId,
};

/// Numbers of a split.
const NUMBERS: usize = CAUSES + BESIDE;

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
            let values = split.0.iter().chain(&split.1).enumerate();
            values
                .filter(|(_, value)| **value != 0)
                .map(move |(at, value)| ((place * NUMBERS + at) as u32, *value))
        });
        Self(numbers.collect())
    }

    /// Number of stored values.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All splits, in the order of their places.
    pub(super) fn splits(&self) -> impl Iterator<Item = (PlaceId, Split)> {
        let of_place = |(key, _): &(u32, u64)| *key as usize / NUMBERS;
        self.0.chunk_by(move |a, b| of_place(a) == of_place(b)).map(move |numbers| {
            let mut split = Split::default();
            for (key, value) in numbers {
                let at = *key as usize % NUMBERS;
                match at.checked_sub(CAUSES) {
                    None => split.0[at] = *value,
                    Some(at) => split.1[at] = *value,
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
            split.0[first] = 7;
            split.1[BESIDE - 1] = last;
            split
        };
        let own = [(3, split(0, 5)), (0, split(CAUSES - 1, 0)), (3, split(1, 6)), (63, split(2, u64::MAX))];
        let mut both = split(0, 5);
        both.add(&split(1, 6));
        let parts = Parts::of(&own);
        assert_eq!(parts.len(), 3 + 1 + 2);
        assert_eq!(
            parts.splits().collect::<Vec<_>>(),
            [(3, both), (0, split(CAUSES - 1, 0)), (63, split(2, u64::MAX))],
        );
    }
}
