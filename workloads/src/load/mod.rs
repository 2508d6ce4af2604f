//! How requests arrive, and how each is measured: MLPerf's four scenarios for anything that is a [`Workload`]. Yields
//! latencies, phase times and the hash of the outputs; marks every request and its phases for guestscope. It does not
//! know what a request computes.
//!
//! `scenario` and `arrivals` say when requests arrive, `dispenser` hands them out, `crew` runs them, `measured` and
//! `summary` say what came of it (`early_stopping` with how much confidence), `peak` looks for the highest rate.

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

/// The phases of a request, in order; their names are those of the studies.
pub const PHASES: [&str; 3] = ["preprocess", "inference", "postprocess"];

/// Most requests of a run: each is kept until the end, in 72 bytes, and then copied and sorted, so that these take 1 GB. A
/// run that lasts and comes to so many ends there, and says so.
pub const MOST_REQUESTS: u64 = 10_000_000;

/// What a request computes, in three steps.
pub trait Workload {
    /// What `preprocess` hands to `infer`.
    type Input;
    /// What `infer` hands to `postprocess`.
    type Output;

    fn preprocess(&mut self, request: u64) -> Result<Self::Input, Error>;
    fn infer(&mut self, input: Self::Input) -> Result<Self::Output, Error>;
    /// Finishes the request and adds its output to `outputs`.
    fn postprocess(&mut self, output: Self::Output, outputs: &mut Digest) -> Result<(), Error>;
}

/// How many requests and when. Requests are numbered from 0; warm-up requests are numbered from 0 as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub scenario: Scenario,
    /// At least so many.
    pub requests: u64,
    /// For at least so long, ns: until then requests are begun (Server: arrive). 0: as `requests` says.
    pub duration_ns: u64,
    /// Of each worker.
    pub warmup: u64,
    /// Threads that take requests, each with a workload of its own.
    pub workers: u32,
    /// Arrivals per second; only of Server. The rate to begin with where a peak is looked for, none: half of what the
    /// workers can do.
    pub qps: Option<f64>,
    /// What requests are judged by.
    pub target: Target,
    /// Look for the highest rate that holds the target, and measure that.
    pub find_peak: bool,
    /// Decides arrivals.
    pub seed: u64,
    /// Whether a terminal sees a bar; not where guestscope draws one of its own.
    pub progress: bool,
}

/// `percentile` of all requests shall take at most `latency_ns` (only Server has such a bound).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Between 50 and 99.99.
    pub percentile: f64,
    pub latency_ns: u64,
}

impl Plan {
    /// Whether speed decides how many requests there are: a closed loop that lasts, or a rate that is looked for.
    pub fn is_of_speed(&self) -> bool {
        self.find_peak || self.scenario != Scenario::Server && self.duration_ns > 0
    }

    /// Adds what was asked for, as far as it decides what is computed, to the hash of a workload. Not the workers (how many
    /// compute it is the platform's matter) and not what judges it, unless that decides the rate.
    pub fn describe(&self, hash: &mut Digest) {
        hash.text(self.scenario.name()).u64(self.requests).u64(self.duration_ns);
        hash.u64(self.qps.unwrap_or_default().to_bits()).u64(u64::from(self.find_peak));
        if self.scenario == Scenario::Server {
            hash.u64(self.seed);
        }
        // There the bound decides the rate, and so what is measured.
        if self.find_peak {
            hash.u64(self.target.percentile.to_bits()).u64(self.target.latency_ns);
        }
    }
}

/// Runs `plan`: the warm-up, the search for a peak if there is to be one, then the measured requests. The calling thread is
/// the first worker, with `first`; the others make their workloads by `another`.
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

/// The `percent`-th percentile by nearest rank: the smallest value that at least so many percent do not exceed.
/// Zero when there is none.
pub fn percentile(values: &[u64], percent: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
