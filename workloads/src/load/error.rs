//! Errors in the settings of the load, each with the hint at what to do next.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no rate of arrivals given: --scenario server")]
    NoRate,
    #[error("{option} has no meaning for a scenario: {scenario}")]
    NotOfScenario { option: &'static str, scenario: &'static str },
    #[error("more requests than are kept: {qps} per second for {seconds} s")]
    TooMany { qps: f64, seconds: f64 },
    #[error("a single stream has one worker, and --workers is: {workers}")]
    Workers { workers: u32 },
    #[error("no rate holds the bound: {percentile} % within {bound}, tried down to {qps:.3} requests/s")]
    NoPeak { percentile: f64, bound: String, qps: f64 },
    #[error("every rate holds the bound, tried up to {qps:.0} requests/s")]
    NoLimit { qps: f64 },
    #[error(
        "the work of a sample must be a time between 1us and 60s, or 1000 to 1000000000000 rounds: {given}"
    )]
    Work { given: String },
    #[error("cannot start worker ({source})")]
    Worker { source: io::Error },
    #[error("a worker ended without a word")]
    WorkerGone,
    #[error("cannot write histogram: {path} ({source})")]
    Histogram { path: PathBuf, source: io::Error },
}

impl LoadError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoRate => {
                "say how many arrive per second with --qps N, or look for the most with --find-peak"
            }
            Self::NotOfScenario { .. } => "leave it out, or choose --scenario server",
            Self::TooMany { .. } => {
                "each request is kept until the end, 10,000,000 at most: take a shorter --duration"
            }
            Self::Workers { .. } => "leave --workers out, or choose --scenario server or offline",
            Self::NoPeak { .. } => {
                "raise --target-latency; `guestscope run` shows what a lone request spends its time on"
            }
            Self::NoLimit { .. } => {
                "the requests are too short for this search: give each more work, or lower --target-latency"
            }
            Self::Work { .. } => {
                "times look like 2ms, 1.5s, 300us; a bare number is rounds, the same on every machine"
            }
            Self::Worker { .. } | Self::WorkerGone => {
                "see whether threads and memory are limited here: ulimit -a, pids.max, memory.max"
            }
            Self::Histogram { .. } => "name a file that can be written with --histogram",
        }
    }
}
