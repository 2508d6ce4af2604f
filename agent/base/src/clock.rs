//! Clocks: the kernel's monotonic one, which every record carries, and the wall, which people and traces
//! want.

/// A pair of readings of the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub wall_ns: u64,
}

impl ClockPair {
    /// Both clocks now: three tries; the one taken has its two monotonic readings closest together.
    pub fn now() -> Self {
        let read = || {
            let before = now_ns();
            let wall_ns = read_clock(libc::CLOCK_REALTIME);
            let after = now_ns();
            (after - before, Self { monotonic_ns: before + (after - before) / 2, wall_ns })
        };
        let best = [read(), read(), read()].into_iter().min_by_key(|reading| reading.0);
        best.map(|reading| reading.1).unwrap_or_default()
    }

    /// What to add to a monotonic time to get wall time, ns.
    pub fn offset_ns(&self) -> i64 {
        self.wall_ns as i64 - self.monotonic_ns as i64
    }
}

/// Pairs kept by [`add`]: a day of minutes. Longer runs keep every second one, then every fourth, ...
pub const MOST_PAIRS: usize = 1_440;

/// Adds the newest pair. The first and the newest are always kept; of the others, as many as a day has
/// minutes.
pub fn add<T>(pairs: &mut Vec<T>, pair: T) {
    if pairs.len() >= MOST_PAIRS {
        let mut index = 0;
        pairs.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
    pairs.push(pair);
}

/// The pair in force at a monotonic time, ns: the last one read before it, or the first. Everything that
/// turns times of one run into wall time uses this, so that all results agree.
pub fn in_force<T>(pairs: &[T], monotonic_ns: u64, of: impl Fn(&T) -> ClockPair) -> ClockPair {
    let before = pairs.partition_point(|pair| of(pair).monotonic_ns <= monotonic_ns);
    pairs.get(before.saturating_sub(1)).map(of).unwrap_or_default()
}

/// CLOCK_MONOTONIC, ns: the clock of every record.
pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call. These two clocks exist everywhere, so the call cannot
    // fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
