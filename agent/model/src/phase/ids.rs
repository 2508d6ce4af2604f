//! Trace and span ids, derived from the run and the number of the phase: the same run gives the same ids
//! again. Those of waits are derived from their start and their phase's id, which the program may have made.
//!
//! Mixing is SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection, so numbers of one run
//! never collide within a half. It draws no randomness; the run's seed is random.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// The ids of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdSource {
    seed: [u64; 2],
}

fn mix(value: u64) -> u64 {
    SplitMix64::seed_from_u64(value).next_u64()
}

impl IdSource {
    /// Creates the source from 16 random bytes, the run ID.
    pub(crate) fn new(run_id: [u8; 16]) -> Self {
        let (high, low) = run_id.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        Self { seed: [word(high), word(low)] }
    }

    /// The trace of the request with this number. Never all zero, which the wire format forbids.
    pub(crate) fn trace_id(&self, root: u64) -> [u8; 16] {
        let [high, low] = self.seed.map(|seed| mix(seed ^ root));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.max(1).to_be_bytes());
        id
    }

    /// The span of the phase with this number.
    pub(crate) fn span_id(&self, phase: u64) -> [u8; 8] {
        mix(self.seed[1].rotate_left(17) ^ phase).max(1).to_be_bytes()
    }
}

/// The span of a wait, by its phase's span and its start. Two that start at different times in one phase
/// never share it; in different ones they do as rarely as any two of 2^64.
pub(crate) fn wait_span_id(phase: [u8; 8], start_ns: u64) -> [u8; 8] {
    mix(mix(start_ns) ^ u64::from_be_bytes(phase)).max(1).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans that were exported must have the same ids when a folder is exported again, by any version.
    #[test]
    fn ids_stay_as_they_are() {
        let ids = IdSource::new(std::array::from_fn(|at| at as u8));
        let trace = 0x7f6b_25c9_0db1_6a5c_b06f_eee9_d859_ac3b_u128;
        assert_eq!(u128::from_be_bytes(ids.trace_id(1)), trace);
        assert_eq!(u64::from_be_bytes(ids.span_id(2)), 0x53f0_c5bf_5740_fa58);
        assert_eq!(u64::from_be_bytes(wait_span_id(ids.span_id(2), 5)), 0xf9b1_96ee_98bf_a83b);
    }
}
