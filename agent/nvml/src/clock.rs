//! The kernel's monotonic clock and the times at which samples are due.
//!
//! Yields nanoseconds and [`Pace`]. `parent` does the waiting, since it watches the reader at the same time.

const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, ns: the clock of every record of the agent.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call. This clock exists everywhere, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // The monotonic clock counts from the start of the machine and is never negative.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}

/// The wall clock, us since 1970.
pub(crate) fn wall_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A span of time as the kernel takes it.
pub(crate) fn timespec(span_ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(span_ns / NS_PER_S).unwrap_or(i64::MAX),
        // Less than a second always fits.
        tv_nsec: i64::try_from(span_ns % NS_PER_S).unwrap_or_default(),
    }
}

/// Deadlines at whole periods after a start, so that the time that reading takes does not add up.
pub(crate) struct Pace {
    period_ns: u64,
    due_ns: u64,
}

impl Pace {
    /// The first sample is due at the start itself.
    pub(crate) fn starting_at(start_ns: u64, period_ns: u64) -> Self {
        Self { period_ns, due_ns: start_ns }
    }

    /// The next deadline. Deadlines that have passed are dropped and never caught up: after a long stop, a
    /// burst of samples of one state would add nothing and would load a driver that was slow already.
    pub(crate) fn next_after(&mut self, now_ns: u64) -> u64 {
        let late_ns = now_ns.saturating_sub(self.due_ns);
        self.due_ns += (late_ns / self.period_ns + 1) * self.period_ns;
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, now_ns, timespec};

    #[test]
    fn reading_time_does_not_add_up() {
        let mut pace = Pace::starting_at(1_000, 100);
        assert_eq!(pace.next_after(1_030), 1_100);
        assert_eq!(pace.next_after(1_199), 1_200);
        assert_eq!(pace.next_after(1_200), 1_300);
    }

    #[test]
    fn missed_deadlines_are_dropped() {
        let mut pace = Pace::starting_at(1_000, 100);
        assert_eq!(pace.next_after(1_100), 1_200);
        assert_eq!(pace.next_after(1_950), 2_000);
        assert_eq!(pace.next_after(2_001), 2_100);
    }

    #[test]
    fn a_deadline_always_lies_ahead() {
        let mut pace = Pace::starting_at(5, 3);
        let mut now = 5;
        for step in [0, 1, 2, 3, 4, 7, 100] {
            now += step;
            let due = pace.next_after(now);
            assert!(due > now, "{due} {now}");
            assert_eq!((due - 5) % 3, 0, "{due}");
            now = due;
        }
    }

    #[test]
    fn spans_and_the_clock_are_nanoseconds() {
        let span = timespec(3_000_000_007);
        assert_eq!((span.tv_sec, span.tv_nsec), (3, 7));
        let first = now_ns();
        assert!(first > 0 && now_ns() >= first);
    }
}
