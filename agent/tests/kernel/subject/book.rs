//! The format of what a test program writes down about itself, shared with the tests that read it.
//!
//! A line is `row`, the phase's number, its thread, and four readings of the kernel's books (before the start
//! edge, after it, before the end, after it); or `fact`, a name and a number. The clerk writes them, the
//! tests read them; here are the values alone.

/// The kernel's numbers for the calling thread at one instant. All of them only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Entry {
    /// CLOCK_MONOTONIC, ns.
    Monotonic,
    /// CLOCK_THREAD_CPUTIME_ID, ns: without stolen time where the kernel knows it.
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
    /// What perf's task clock says that the thread has been on CPUs since its books were opened, ns; 0 where
    /// there is none.
    TaskClock,
}

/// Number of entries.
pub(crate) const ENTRIES: usize = 9;

/// The books at one instant, by [`Entry`].
pub(crate) type Reading = [u64; ENTRIES];

/// One phase, as its own thread saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The request number that the marker was given.
    pub(crate) number: u64,
    /// Thread number, as the mounted /proc counts.
    pub(crate) tid: u64,
    /// Before the start edge, after it, before the end edge, after it.
    pub(crate) readings: [Reading; 4],
}

/// Everything that a program and its descendants wrote down.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) rows: Vec<Row>,
    pub(crate) facts: Vec<(String, u64)>,
}
