//! A seeded stream of random numbers: SplitMix64 and what the generators of data and weights draw from it.
//! Only integer arithmetic and exact floating-point operations, so that a seed gives the same bits on every
//! machine and with every C library. Not for secrets.
//!
//! SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// One stream; equal seeds and streams give equal numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// `stream` keeps the numbers for different purposes (image 0, image 1, a layer) apart under one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let first = |seed| SplitMix64::seed_from_u64(seed).next_u64();
        Self(SplitMix64::seed_from_u64(first(first(seed) ^ stream)))
    }

    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform from `low` to `high`, in steps of 2^-24 of the width.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.u64() >> 40) as f32 / 16_777_216.0;
        low + unit * (high - low)
    }

    /// About normal, mean 0, variance 1: the sum of four uniform numbers (no value beyond 3.5). Enough where
    /// many of them are added up anyway, as in a Fourier transform, and free of logarithm and cosine, whose
    /// last bit depends on the C library.
    pub fn roughly_normal(&mut self) -> f64 {
        let bits = self.u64();
        let sum: u64 = (0..4).map(|lane| (bits >> (16 * lane)) & 0xffff).sum();
        // Four uniform numbers of 0..=65535: mean 131070, variance 4 * (65536^2 - 1) / 12.
        (sum as f64 - 131_070.0) / 37_837.227_3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation for the state 1234567
    /// (prng.di.unimi.it/splitmix64.c, computed once with it).
    #[test]
    fn agrees_with_the_reference() {
        let mut random = Random(SplitMix64::seed_from_u64(1_234_567));
        assert_eq!(
            [random.u64(), random.u64(), random.u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).u64();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
    }

    #[test]
    fn moments_are_those_promised() {
        let mut random = Random::new(7, 0);
        let count = 200_000;
        let normal: Vec<f64> = (0..count).map(|_| random.roughly_normal()).collect();
        let mean = normal.iter().sum::<f64>() / f64::from(count);
        let variance = normal.iter().map(|x| x * x).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.01, "{variance}");
        let uniform: Vec<f32> = (0..count).map(|_| random.uniform(-2.0, 6.0)).collect();
        assert!(uniform.iter().all(|x| (-2.0..6.0).contains(x)));
        let mean = uniform.iter().map(|x| f64::from(*x)).sum::<f64>() / f64::from(count);
        assert!((mean - 2.0).abs() < 0.03, "{mean}");
    }
}
