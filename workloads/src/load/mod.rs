//! How requests arrive, and how each is measured: MLPerf's four scenarios for anything that is a
//! [`Workload`]. Yields latencies, phase times and the hash of the outputs; marks every request and its
//! phases for guestscope. It does not know what a request computes.
//!
//! `scenario` and `arrivals` say when requests arrive, `dispenser` hands them out, `crew` runs them,
//! `measured` and `summary` hold results (`early_stopping` their confidence), `peak` finds the highest rate.

pub mod arrivals;
pub mod clock;
mod crew;
mod dispenser;
pub mod early_stopping;
pub mod error;
pub mod histogram;
pub mod measured;
pub mod options;
pub mod peak;
pub mod scenario;
pub mod summary;
#[cfg(test)]
mod tests;

use self::{clock::Clock, scenario::Scenario};
pub use self::{crew::Crew, measured::Measured};
use crate::{digest::Digest, error::Error};

/// Phases of a request, in order; the names are those of the studies.
pub const PHASES: [&str; 3] = ["preprocess", "inference", "postprocess"];

/// Most requests of a run: each is kept until the end, in 72 bytes, and then copied and sorted, so that these
/// take 1 GB. A run with a duration that reaches so many ends there, and says so.
pub const MOST_REQUESTS: u64 = 10_000_000;

/// Computation of a request, in three steps.
pub trait Workload {
    /// Result of `preprocess`, input of `infer`.
    type Input;
    /// Result of `infer`, input of `postprocess`.
    type Output;

    fn preprocess(&mut self, request: u64) -> Result<Self::Input, Error>;
    fn infer(&mut self, input: Self::Input) -> Result<Self::Output, Error>;
    /// Finishes the request and adds its output to `outputs`.
    fn postprocess(&mut self, output: Self::Output, outputs: &mut Digest) -> Result<(), Error>;
}

/// Number of requests and their timing. Numbers begin at 0, for warm-up requests as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub scenario: Scenario,
    /// Minimum number of requests.
    pub requests: u64,
    /// Minimum duration, ns: until then requests are begun (Server: arrive). 0: `requests` alone decides.
    pub duration_ns: u64,
    /// Warm-up requests of each worker.
    pub warmup: u64,
    /// Threads that take requests, each with a workload of its own.
    pub workers: u32,
    /// Arrivals per second, only for Server; a peak search begins there, or at half the workers' capacity.
    pub qps: Option<f64>,
    /// Latency target by which requests are judged.
    pub target: Target,
    /// Search for the highest rate that holds the target, and measure that.
    pub find_peak: bool,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Whether a terminal sees a bar; not where guestscope draws one of its own.
    pub progress: bool,
}

/// `percentile` of all requests shall take at most `latency_ns` (only Server has such a bound).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// From 50 to 99.99.
    pub percentile: f64,
    pub latency_ns: u64,
}

impl Plan {
    /// Whether speed decides the number of requests: a closed loop with a duration, or a search for a rate.
    pub fn is_of_speed(&self) -> bool {
        self.find_peak || self.scenario != Scenario::Server && self.duration_ns > 0
    }

    /// Adds to a workload's hash the settings that decide what is computed. Not the workers (their number is
    /// the platform's matter) and not the target, unless that decides the rate.
    pub fn describe(&self, hash: &mut Digest) {
        hash.text(self.scenario.name()).u64(self.requests).u64(self.duration_ns);
        hash.u64(self.qps.unwrap_or_default().to_bits()).u64(u64::from(self.find_peak));
        if self.scenario == Scenario::Server {
            hash.u64(self.seed);
        }
        // In a search the bound decides the rate, and so what is measured.
        if self.find_peak {
            hash.u64(self.target.percentile.to_bits()).u64(self.target.latency_ns);
        }
    }
}

/// Runs `plan`: the warm-up, the search for a peak if asked for, then the measured requests. The calling
/// thread is the first worker, with `first`; the others make their workloads with `another`.
pub fn run<W: Workload>(
    plan: &Plan,
    clock: &dyn Clock,
    first: &mut W,
    another: &(dyn Fn() -> Result<W, Error> + Sync),
) -> Result<Measured, Error> {
    crew::with_crew(plan, clock, first, another, |crew| {
        if plan.find_peak {
            return peak::find(crew, plan);
        }
        crew.run(plan, crew::Course::measured(plan))
    })
}

/// The `percent`-th percentile by nearest rank: the smallest value that at least so many percent do not
/// exceed. Zero without values.
pub fn percentile(values: &[u64], percent: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
