//! A known amount of CPU work: as many rounds of integer arithmetic as take the asked time here, counted once and then
//! the same for every request. It touches no memory and makes no system call. What else runs on the core, and how
//! fast it is clocked, decides how long a round takes.

use std::hint::black_box;

use super::clock;

/// Rounds between two looks at the clock while counting: about 20 us.
const SAMPLE_ROUNDS: u64 = 20_000;
/// Samples taken; the fastest counts, since everything that disturbs makes a sample slower.
const SAMPLES: u32 = 50;

/// As much work as was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// As many rounds as take about this long on this CPU now.
    Lasting {
        ns: u64,
    },
    Rounds(u64),
}

/// Rounds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub rounds: u64,
}

impl Work {
    pub fn new(amount: Amount) -> Self {
        match amount {
            Amount::Lasting { ns } => Self::lasting(ns),
            Amount::Rounds(rounds) => Self { rounds },
        }
    }

    fn lasting(ns: u64) -> Self {
        let sample = || {
            let start_ns = clock::thread_cpu_ns();
            Self { rounds: SAMPLE_ROUNDS }.run();
            clock::thread_cpu_ns() - start_ns
        };
        let fastest_ns = (0..SAMPLES).map(|_| sample()).min().unwrap_or(1).max(1);
        let rounds = u128::from(ns) * u128::from(SAMPLE_ROUNDS) / u128::from(fastest_ns);
        Self { rounds: u64::try_from(rounds).unwrap_or(u64::MAX).max(1) }
    }

    /// So many eighths of it.
    #[must_use]
    pub fn eighths(self, count: u64) -> Self {
        Self { rounds: self.rounds / 8 * count }
    }

    /// Does it: each round needs the result of the one before, so that no compiler and no core runs them side by side.
    pub fn run(self) {
        let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..self.rounds {
            state = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        black_box(state);
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Work};
    use crate::stall::machine::clock;

    #[test]
    fn rounds_grow_with_the_time_and_take_cpu_time() {
        let (short, long) = (Work { rounds: 1_000_000 }, Work { rounds: 8_000_000 });
        let cpu_ns = |work: Work| {
            let start_ns = clock::thread_cpu_ns();
            work.run();
            clock::thread_cpu_ns() - start_ns
        };
        // Eight times the work in a row of dependent multiplications is not done in twice the time.
        assert!(cpu_ns(long) > 2 * cpu_ns(short));
        assert_eq!(long.eighths(3).rounds, 3_000_000);
        assert!(Work::new(Amount::Lasting { ns: 1_000_000 }).rounds >= 1);
        assert_eq!(Work::new(Amount::Rounds(7)), Work { rounds: 7 });
    }
}
