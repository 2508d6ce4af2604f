//! The format of a test program's notes about itself, shared with the tests that read them.
//!
//! A line is `row`, the phase's number, its thread, and four readings of the kernel's counters (before the
//! start edge, after it, before the end edge, after it); or `fact`, a name and a number. The clerk writes
//! lines, the tests read them; this file has only the types.

/// The kernel's counters for the calling thread at one instant. They only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Entry {
    /// CLOCK_MONOTONIC, ns.
    Monotonic,
    /// CLOCK_THREAD_CPUTIME_ID, ns: without stolen time, if the kernel knows it.
    Cpu,
    /// `run_delay` of /proc/thread-self/schedstat, ns.
    RunDelay,
    /// `ru_nvcsw` of the thread.
    Voluntary,
    /// `ru_nivcsw` of the thread.
    Involuntary,
    /// `ru_minflt` of the thread.
    MinorFaults,
    /// `ru_majflt` of the thread.
    MajorFaults,
    /// Stolen time of all CPUs in /proc/stat, ns, in steps of a tick.
    Steal,
    /// Time on CPUs by perf's task clock since the clerk was made, ns; 0 without that clock.
    TaskClock,
}

/// Number of entries.
pub(crate) const ENTRIES: usize = 9;

/// The counters at one instant, by [`Entry`].
pub(crate) type Reading = [u64; ENTRIES];

/// One phase, as its own thread measured it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The request number that the marker was given.
    pub(crate) number: u64,
    /// Thread number in the mounted /proc.
    pub(crate) tid: u64,
    /// Before the start edge, after it, before the end edge, after it.
    pub(crate) readings: [Reading; 4],
}

/// All notes of a program and its descendants.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) rows: Vec<Row>,
    pub(crate) facts: Vec<(String, u64)>,
}
