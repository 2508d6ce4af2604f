//! Limits on what a program's marks can make the agent keep. Programs are untrusted: each table that they
//! fill has a limit.
//!
//! What is beyond a limit is counted in [`super::values::PairingLosses`].

/// Default of the maximum number of requests open at the same time.
pub const OPEN_REQUESTS: u32 = 10_000;
/// Default of the maximum number of phases per request.
pub const PHASES_PER_REQUEST: u32 = 10_000;
/// The most phases of one request that can be asked for: readers of a run folder take no more of a request.
pub const MOST_PHASES_PER_REQUEST: u32 = 20_000;
/// Nesting depth in one request. Programs nest a few dozen; a marked recursion may nest any number.
const DEPTH: u32 = 1_000;
/// Phases in all unfinished requests: an open phase takes 1.3 KB, an ended one 0.7 KB.
const PHASES: usize = 20_480;
/// Threads that are known beyond those that the kernel side can track: ends may be late.
const THREADS_LATE: usize = 1_024;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that have begun and not ended.
    pub open_requests: usize,
    /// Phases of one request, ended ones included.
    pub phases_per_request: usize,
    /// Phases of all requests that have not ended.
    pub phases: usize,
    /// Phases within each other.
    pub depth: u32,
    /// Threads.
    pub threads: usize,
}

impl Limits {
    /// Room for all that is asked for; each number counts as 1 at least.
    pub fn new(open_requests: u32, phases_per_request: u32, threads: u32) -> Self {
        let of = |number: u32| number.max(1) as usize;
        let (open_requests, phases_per_request) = (of(open_requests), of(phases_per_request));
        Self {
            open_requests,
            phases_per_request,
            phases: PHASES.max(open_requests.saturating_mul(2)).max(phases_per_request.saturating_mul(2)),
            depth: DEPTH,
            threads: (threads as usize).saturating_add(THREADS_LATE),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(OPEN_REQUESTS, PHASES_PER_REQUEST, guestscope_contract::SLOTS)
    }
}

/// Steps of work: tests count them, since time on a busy machine says nothing about an algorithm.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    /// Counts so many more steps.
    pub(crate) fn add(steps: usize) {
        STEPS.set(STEPS.get() + steps as u64);
    }

    /// Steps of this thread since the last call.
    pub(crate) fn take() -> u64 {
        STEPS.replace(0)
    }
}

/// No step is counted outside tests.
#[cfg(not(test))]
pub(crate) mod steps {
    /// Does nothing.
    pub(crate) const fn add(_: usize) {}
}
