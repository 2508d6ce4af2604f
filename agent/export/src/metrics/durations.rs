//! Durations in an exponential histogram, as OpenTelemetry defines it: buckets of equal width in the
//! logarithm, in bounded memory, mergeable without loss.
//!
//! Source: OpenTelemetry specification 1.60, metrics data model, "ExponentialHistogram".

/// Scale of a histogram that is new: a bucket is 2.2 % wide.
const SCALE: u32 = 5;
/// Most buckets, as the specification recommends. Durations of all sizes fit into them at scale 1.
const MOST_BUCKETS: usize = 160;

/// Numbers of durations by bucket. Bucket `i` has those above `base^i` ns up to `base^(i + 1)` ns, where
/// `base` is `2^(2^-scale)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    scale: u32,
    /// Index of the first bucket.
    offset: i32,
    counts: Vec<u64>,
    zeros: u64,
    count: u64,
    sum_ns: u128,
}

impl Default for Durations {
    fn default() -> Self {
        Self { scale: SCALE, offset: 0, counts: Vec::new(), zeros: 0, count: 0, sum_ns: 0 }
    }
}

impl Durations {
    /// Adds a duration.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(ns);
        if ns == 0 {
            self.zeros += 1;
            return;
        }
        let mut index = index(ns, self.scale);
        while self.span_with(index) > MOST_BUCKETS {
            self.coarsen();
            index >>= 1;
        }
        let place = self.place(index);
        self.counts[place] += 1;
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Number of durations up to `2^power` ns: exact, since every power of two is the end of a bucket.
    pub fn up_to(&self, power: u32) -> u64 {
        let end = i64::from(power) << self.scale;
        let buckets = self.counts.iter().zip(i64::from(self.offset)..);
        self.zeros + buckets.take_while(|(_, index)| *index < end).map(|(count, _)| count).sum::<u64>()
    }

    /// Scale, index of the first bucket, and numbers by bucket; then the number of zeros.
    pub fn buckets(&self) -> (u32, i32, &[u64], u64) {
        (self.scale, self.offset, &self.counts, self.zeros)
    }

    /// What came since an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut earlier = earlier.clone();
        while earlier.scale > self.scale {
            earlier.coarsen();
        }
        let mut since = self.clone();
        for (count, index) in earlier.counts.iter().zip(earlier.offset..) {
            let place = usize::try_from(index - since.offset).ok();
            if let Some(mine) = place.and_then(|place| since.counts.get_mut(place)) {
                *mine = mine.saturating_sub(*count);
            }
        }
        since.zeros = since.zeros.saturating_sub(earlier.zeros);
        since.count = since.count.saturating_sub(earlier.count);
        since.sum_ns = since.sum_ns.saturating_sub(earlier.sum_ns);
        since
    }

    /// Buckets that there would be with this index.
    fn span_with(&self, index: i32) -> usize {
        if self.counts.is_empty() {
            return 1;
        }
        let last = self.offset + self.counts.len() as i32 - 1;
        (last.max(index) - self.offset.min(index)) as usize + 1
    }

    /// Makes each two buckets one.
    fn coarsen(&mut self) {
        let begin = self.offset >> 1;
        let mut counts = Vec::new();
        for (count, index) in self.counts.iter().zip(self.offset..) {
            let place = ((index >> 1) - begin) as usize;
            counts.resize(place + 1, 0);
            counts[place] += count;
        }
        (self.scale, self.offset, self.counts) = (self.scale - 1, begin, counts);
    }

    /// The place of a bucket, which is made if it is missing.
    fn place(&mut self, index: i32) -> usize {
        if self.counts.is_empty() {
            self.offset = index;
        }
        if index < self.offset {
            let missing = (self.offset - index) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.offset = index;
        }
        let place = (index - self.offset) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        place
    }
}

/// The bucket of a duration of at least 1 ns.
fn index(ns: u64, scale: u32) -> i32 {
    if ns.is_power_of_two() {
        // The end of a bucket belongs to it.
        return (ns.trailing_zeros() << scale) as i32 - 1;
    }
    ((ns as f64).log2() * f64::from(1_u32 << scale)).floor() as i32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_up_to_powers_of_two_are_exact(all in prop::collection::vec(any::<u64>(), 0..300), shift in 0..64_u32) {
            let mut durations = Durations::default();
            let all: Vec<u64> = all.into_iter().map(|ns| (ns >> shift).min(1 << 62)).collect();
            for ns in &all {
                durations.record(*ns);
            }
            prop_assert_eq!(durations.count(), all.len() as u64);
            prop_assert_eq!(durations.sum_ns(), all.iter().map(|ns| u128::from(*ns)).sum::<u128>());
            prop_assert!(durations.counts.len() <= MOST_BUCKETS);
            for power in 0..63 {
                let expected = all.iter().filter(|ns| **ns <= 1 << power).count() as u64;
                prop_assert_eq!(durations.up_to(power), expected, "2^{}", power);
            }
        }
    }

    proptest! {
        #[test]
        fn what_came_since_is_what_was_added(before in prop::collection::vec(1_u64.., 0..50), after in prop::collection::vec(1_u64.., 0..50)) {
            let mut durations = Durations::default();
            for ns in &before {
                durations.record(ns >> 2);
            }
            let earlier = durations.clone();
            for ns in &after {
                durations.record(ns >> 2);
            }
            let since = durations.since(&earlier);
            prop_assert_eq!(since.count(), after.len() as u64);
            for power in 0..63 {
                let expected = after.iter().filter(|ns| **ns >> 2 <= 1 << power).count() as u64;
                prop_assert_eq!(since.up_to(power), expected);
            }
        }
    }

    #[test]
    fn durations_that_are_alike_stay_apart_by_two_per_cent() {
        let mut durations = Durations::default();
        (1_000_000..2_000_000).step_by(1_000).for_each(|ns| durations.record(ns));
        assert_eq!((durations.scale, durations.counts.len()), (SCALE, 33));
    }
}
