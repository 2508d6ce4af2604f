//! Why a comparison is refused, each with the next action.

use std::path::PathBuf;

use guestscope_base::Hint;

use crate::analyze::compare::{MOST_WARMUP, Metric};
use crate::untrusted::Shown as _;

/// An error of the comparison. `Display` gives `what: value`; [`Hint`] gives the next action.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no run folder at this path, nor below it.
    #[error("no run folder: {}", .0.shown())]
    NoFolder(PathBuf),
    /// A directory could not be listed.
    #[error("cannot list: {}: {source}", path.shown())]
    List {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// All runs are of one platform.
    #[error("only one platform to compare: {0}")]
    OnePlatform(String),
    /// No run has a request.
    #[error("nothing to compare: {0}")]
    NoRequests(String),
    /// No platform has this label.
    #[error("no such platform: {name}; there are {known}")]
    UnknownPlatform {
        /// The label that was given.
        name: String,
        /// Labels that there are.
        known: String,
    },
    /// Not all runs have requests of this name, or none has.
    #[error("not all runs have requests of this name: {name}; lacking: {lacking}")]
    UnknownRequest {
        /// The name that was given, or that most runs have.
        name: String,
        /// The first folder without.
        lacking: String,
    },
    /// Two folders that are not copies of each other have the same run ID.
    #[error("two different folders claim to be the same run: {}; {}", first.shown(), other.shown())]
    TwoFolders {
        /// The folder that was named or found first.
        first: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// The runs did not do the same work.
    #[error("the runs did not do the same work: {0}")]
    UnequalWork(String),
    /// A metric needs more requests per run.
    #[error("too few requests per run for {metric}: {fewest}, it needs {needed}; in {}", shortest.shown())]
    TooFewRequests {
        /// The metric.
        metric: Metric,
        /// Requests in the run that has fewest.
        fewest: u64,
        /// Requests that it takes.
        needed: u64,
        /// The run that has fewest.
        shortest: PathBuf,
    },
    /// A margin of a metric that is not declared.
    #[error("a margin of a metric that is not judged by: {0}")]
    UnusedMargin(Metric),
    /// A report shows single requests with their waits, which it reads from folders.
    #[error("a report is of run folders, not of traces: --jaeger")]
    TracesInReport,
    /// More than anybody compares.
    #[error("too many folders or files in: {}", .0.shown())]
    TooManyFolders(PathBuf),
    /// A longer warm-up than can be left out.
    #[error("too long a warm-up: {0} requests, at most {MOST_WARMUP}")]
    Warmup(u64),
}

impl Hint for Refusal {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Refusal::NoFolder(_) => "name folders that `guestscope run` made, or directories that hold such",
            Refusal::List { .. } => {
                "folders are readable by the user who ran guestscope only: use the same user, or sudo"
            }
            Refusal::OnePlatform(_) => {
                "name runs of two platforms, or tell them apart: guestscope compare before=DIR after=DIR"
            }
            Refusal::NoRequests(_) => {
                "mark requests in the program: see the README, \"Use it on your own program\""
            }
            Refusal::UnknownPlatform { .. } => "give one of these labels to --baseline",
            Refusal::UnknownRequest { .. } => "choose the requests to compare with --request NAME",
            Refusal::TwoFolders { .. } => "leave one of them out: a run has one folder",
            Refusal::UnequalWork(_) => {
                "compare runs of one command with the same options and seed; --allow-unequal-work compares them anyway"
            }
            Refusal::TooFewRequests { .. } => {
                "run longer, or declare another metric, for instance --metric mean,p50"
            }
            Refusal::UnusedMargin(_) => "declare it as well, for instance --metric mean,p50,p99",
            Refusal::TracesInReport => {
                "give the folders of the runs, or compare the traces: guestscope compare --jaeger URL"
            }
            Refusal::TooManyFolders(_) => "name the directory that holds the runs, or single folders",
            Refusal::Warmup(_) => "mark warm-ups in the program, or leave out fewer",
        };
        Some(hint.to_owned())
    }
}
