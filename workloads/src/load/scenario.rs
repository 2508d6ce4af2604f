//! The four ways in which MLPerf lets requests arrive, with what each is judged by. Names and rules only.
//!
//! Rules: <https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc>, sections 3 and
//! 6.

use clap::ValueEnum;
use serde::Serialize;

/// The shortest run that LoadGen takes by default, ns (`TestSettings`; a submission to MLPerf: 600 s).
pub const LEAST_NS: u64 = 10_000_000_000;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum Scenario {
    /// The next request when the one before is done; judged by p90
    #[value(alias("singlestream"))]
    SingleStream,
    /// The same with 8 samples per request; judged by p99
    #[value(alias("multistream"))]
    MultiStream,
    /// Poisson arrivals at --qps, however long requests take; judged by p99 against --target-latency
    Server,
    /// All samples are there at the start; judged by samples per second
    Offline,
}

impl Scenario {
    /// As LoadGen writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleStream => "SingleStream",
            Self::MultiStream => "MultiStream",
            Self::Server => "Server",
            Self::Offline => "Offline",
        }
    }

    /// The percentile that LoadGen judges by, without a setting of its own.
    pub fn percentile(self) -> f64 {
        match self {
            Self::SingleStream => 90.0,
            Self::MultiStream | Self::Server | Self::Offline => 99.0,
        }
    }

    /// Samples of one request, without a setting of its own.
    pub fn batch(self) -> u64 {
        match self {
            Self::MultiStream => 8,
            Self::SingleStream | Self::Server | Self::Offline => 1,
        }
    }

    /// The fewest that LoadGen takes by default, and what it counts: Offline is one query of many samples.
    pub fn least_queries(self) -> (u64, &'static str) {
        match self {
            Self::Offline => (24_576, "samples"),
            Self::SingleStream | Self::MultiStream | Self::Server => (100, "requests"),
        }
    }

    /// Whether a single client waits for each answer before it asks again.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::SingleStream | Self::MultiStream)
    }
}
