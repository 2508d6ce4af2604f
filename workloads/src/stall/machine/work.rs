//! A known amount of CPU work: rounds of integer arithmetic, as many as take the asked time here, counted
//! once and then the same for every request. It touches no memory and makes no system call. The load on the
//! core and its clock rate decide how long a round takes.

use std::hint::black_box;

use super::clock;

/// Shortest sample. In an emulated guest the clock of a thread may stand still for 4 ms, the length of a
/// tick; shorter samples then seem to take no time at all.
const SAMPLE_NS: u64 = 8_000_000;
/// Number of samples. The median counts: disturbance makes them too long, a coarse clock too short.
const SAMPLES: usize = 5;

/// Amount of work asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Rounds that take about this long on this CPU now.
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
        let mut sample = Self { rounds: 1 << 16 };
        while sample.cpu_ns() < SAMPLE_NS {
            sample.rounds *= 2;
        }
        let mut taken_ns: [u64; SAMPLES] = std::array::from_fn(|_| sample.cpu_ns());
        taken_ns.sort_unstable();
        let middle_ns = taken_ns[SAMPLES / 2].max(SAMPLE_NS / 4);
        let rounds = u128::from(ns) * u128::from(sample.rounds) / u128::from(middle_ns);
        Self { rounds: u64::try_from(rounds).unwrap_or(u64::MAX).max(1) }
    }

    /// Does the work; returns its CPU time.
    fn cpu_ns(self) -> u64 {
        let start_ns = clock::thread_cpu_ns();
        self.run();
        clock::thread_cpu_ns().saturating_sub(start_ns)
    }

    /// `count` eighths of the work.
    #[must_use]
    pub fn eighths(self, count: u64) -> Self {
        Self { rounds: self.rounds / 8 * count }
    }

    /// Does the work: each round needs the last one's result, so no compiler or core runs them in parallel.
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

    #[test]
    fn rounds_grow_with_the_time_and_take_cpu_time() {
        let (short, long) = (Work { rounds: 1_000_000 }, Work { rounds: 8_000_000 });
        // Eight times the rounds of dependent multiplications cannot take only twice the time.
        assert!(long.cpu_ns() > 2 * short.cpu_ns());
        assert_eq!(long.eighths(3).rounds, 3_000_000);
        assert!(Work::new(Amount::Lasting { ns: 1_000_000 }).rounds > 1000);
        assert_eq!(Work::new(Amount::Rounds(7)), Work { rounds: 7 });
    }
}
