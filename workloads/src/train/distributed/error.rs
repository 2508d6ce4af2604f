//! Errors of a parameter server and its workers.

use std::io;

/// Why a job of several processes ends early. Servers tell their workers in these words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("worker {rank} is gone: {reason}")]
    WorkerGone { rank: u32, reason: String },
    #[error("worker {rank} failed: {reason}")]
    WorkerFailed { rank: u32, reason: String },
    #[error("worker {rank} is late: it lives, and has pushed no gradient for {seconds} s")]
    WorkerLate { rank: u32, seconds: u64 },
    #[error("workers did not come within {seconds} s: {came} of {workers} are here")]
    Missing { came: u32, workers: u32, seconds: u64 },
}

/// Every way in which a part of such a job can fail.
#[derive(Debug, thiserror::Error)]
pub enum DistributedError {
    #[error("--role {role} needs {what}")]
    Needs { what: &'static str, role: &'static str },
    #[error("{option} has no meaning {when}")]
    NoMeaning { option: &'static str, when: &'static str },
    #[error("{0} is less than 1s")]
    Limit(&'static str),
    #[error("cannot listen for workers: {address} ({source})")]
    Listen { address: String, source: io::Error },
    #[error("cannot serve workers: {0}")]
    Serve(String),
    #[error("cannot start what talks to peers: {0}")]
    Runtime(io::Error),
    #[error("not an address of a parameter server: {address} ({reason})")]
    Address { address: String, reason: String },
    #[error("cannot reach the parameter server within {seconds} s: {address} ({reason})")]
    Unreachable { address: String, seconds: u64, reason: String },
    #[error("refused by the parameter server: {0}")]
    Refused(String),
    #[error("the parameter server is gone: {address} ({reason})")]
    ServerGone { address: String, reason: String },
    #[error("the parameter server ended the job: {0}")]
    Ended(String),
    #[error(
        "the parameter server's answer is no row of this model's parameters: {found} numbers instead of {expected}"
    )]
    Answer { found: u64, expected: u64 },
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("workers have different parameters after synchronous steps: {hashes}")]
    Differ { hashes: String },
    #[error("cannot read what a process said: {name} ({reason})")]
    Said { name: String, reason: String },
}

impl DistributedError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Needs { .. } | Self::NoMeaning { .. } => {
                "a server: --role ps --listen ADDRESS --workers N; a worker: --role worker --server ADDRESS --rank R; all of \
                 them here: --workers N"
            }
            Self::Limit(_) => "words between the peers take time as well: give some seconds",
            Self::Listen { .. } => "name another address or port with --listen, or end what listens there",
            Self::Serve(_) | Self::Runtime(_) => "there may be too many open files or threads: see ulimit -a",
            Self::Address { .. } => "give host and port, like --server 10.0.0.1:7070",
            Self::Unreachable { .. } => {
                "start the server first (--role ps --listen ADDRESS), and let nothing block its port; --peer-timeout waits longer"
            }
            Self::Refused(_) => "start server and workers with the same build, model, --seed and --workers",
            Self::ServerGone { .. } => "see what the server said when it ended",
            Self::Ended(_) | Self::Failed(Failure::WorkerGone { .. } | Failure::WorkerFailed { .. }) => {
                "see what the worker said when it ended"
            }
            Self::Failed(Failure::WorkerLate { .. }) => {
                "see what that worker does; where a step takes longer than that, --worker-timeout waits longer"
            }
            Self::Failed(Failure::Missing { .. }) => {
                "start each worker with --role worker --server ADDRESS --rank R; --peer-timeout waits longer"
            }
            Self::Answer { .. } | Self::Differ { .. } | Self::Said { .. } => {
                "this is a defect of guestscope-workloads, please report it"
            }
        }
    }
}
