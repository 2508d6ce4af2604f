//! The clock that requests are timed by: the kernel's, or in tests one that only moves when told. Yields
//! nanoseconds of `CLOCK_MONOTONIC`, which is also the marker's clock for scheduled arrivals.

use std::time::Duration;

use nix::{
    sys::{prctl, time::TimeSpec},
    time::{ClockId, ClockNanosleepFlags, clock_nanosleep},
};

use crate::stall::machine::clock;

/// Clock of a run.
pub trait Clock: Sync {
    fn now_ns(&self) -> u64;
    /// Returns at `ns` or later; at once when that has passed.
    fn sleep_until(&self, ns: u64);
    /// Called once by each thread that will sleep for arrivals.
    fn be_precise(&self) {}
}

/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn sleep_until(&self, ns: u64) {
        let until = TimeSpec::from_duration(Duration::from_nanos(ns));
        // A signal ends the sleep early; until is a point in time, so sleeping again loses nothing. No other
        // error is possible with this clock and a time in nanoseconds.
        while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until)
            == Err(nix::errno::Errno::EINTR)
        {}
    }

    fn be_precise(&self) {
        // Otherwise the kernel may wake a sleeper 50 us late to save energy, and every arrival would wait for
        // that. Where it is refused, arrivals do wait, and the queue shows it.
        let _ = prctl::set_timerslack(1);
    }
}

#[cfg(test)]
pub(super) mod virtual_clock {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::Clock;

    /// Moves by sleeps, by work that says how long it takes, and by `reading_ns` at each reading.
    #[derive(Debug, Default)]
    pub(in crate::load) struct Virtual {
        pub(in crate::load) now_ns: AtomicU64,
        pub(in crate::load) reading_ns: u64,
    }

    impl Virtual {
        pub(in crate::load) fn advance(&self, ns: u64) {
            self.now_ns.fetch_add(ns, SeqCst);
        }
    }

    impl Clock for Virtual {
        fn now_ns(&self) -> u64 {
            self.now_ns.fetch_add(self.reading_ns, SeqCst)
        }

        fn sleep_until(&self, ns: u64) {
            self.now_ns.fetch_max(ns, SeqCst);
        }
    }
}
