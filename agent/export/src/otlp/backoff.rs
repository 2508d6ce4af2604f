//! How long to wait before the next attempt: exponential, with jitter, never less than the collector asks
//! for.
//!
//! Pure except for its seed. It does not wait and does not count attempts.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Longest delay of our own choice.
const LONGEST: Duration = Duration::from_secs(30);
/// Longest delay that a collector may ask for: a wrong header must not end the export.
const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// The delays of one series of failures.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    next: Duration,
    random: u64,
}

impl Backoff {
    /// Each agent has its own seed: agents that lost a collector together must not all come back at once.
    pub(super) fn new(first: Duration) -> Self {
        Self { first, next: first, random: RandomState::new().hash_one(first) | 1 }
    }

    /// Resets the delay after a success.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Delay after a failure: between half of the current delay and all of it, and no less than `asked`.
    pub(super) fn delay(&mut self, asked: Option<Duration>) -> Duration {
        let half = self.next / 2;
        let jitter = half.mul_f64(self.fraction());
        self.next = (self.next * 2).min(LONGEST);
        (half + jitter).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// Uniform in [0, 1): xorshift64 (Marsaglia 2003), the upper 53 bits.
    fn fraction(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}
