//! The kernel's clocks and counters of this thread, as plain numbers. None of these calls can fail on Linux
//! with the constants used here, so a failure reads as zero.

use std::time::Duration;

use nix::{
    sys::resource::{UsageWho, getrusage},
    time::{ClockId, clock_gettime},
};

/// `CLOCK_MONOTONIC`, the clock of the agent's records.
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread. A system call, never the vDSO: the kernel brings its books up to date for
/// it, which also makes it see at once that a CPU quota has run out.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Time that the calling thread has waited in run queues since it began, by the second number of its
/// schedstat. Zero if the kernel does not count it.
pub fn run_delay_ns() -> u64 {
    let read = std::fs::read_to_string("/proc/thread-self/schedstat");
    let second =
        read.ok().and_then(|text| text.split_whitespace().nth(1).and_then(|number| number.parse().ok()));
    second.unwrap_or(0)
}

fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// Page faults of the calling thread since it began, from its rusage.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub minor: u64,
    pub major: u64,
}

impl Faults {
    pub fn now() -> Self {
        getrusage(UsageWho::RUSAGE_THREAD).map_or(Self { minor: 0, major: 0 }, |usage| Self {
            minor: usage.minor_page_faults() as u64,
            major: usage.major_page_faults() as u64,
        })
    }
}
