//! Every way in which an H2O workload can fail, with the message for people and the hint at what to do next.

use std::{io, path::PathBuf};

use crate::{
    memory::NoRoom,
    stall::{error::StallError, machine::interrupt},
};

#[derive(Debug, thiserror::Error)]
pub enum H2oError {
    #[error("cannot read data: {path} ({source})")]
    Read { path: PathBuf, source: io::Error },
    #[error("data is no file: {path}")]
    NoFile { path: PathBuf },
    #[error("file is empty: {path}")]
    Empty { path: PathBuf },
    #[error("header has {found} columns instead of 31, or the first 29 of them: {path}")]
    Header { path: PathBuf, found: usize },
    #[error("column {number} is `{found}` instead of `{expected}`: {path}")]
    Column { path: PathBuf, number: usize, found: String, expected: &'static str },
    #[error("line {line} is longer than 1 MiB: {path}")]
    LongLine { path: PathBuf, line: u64 },
    #[error("no row can be used, of so many: {rows} ({path})")]
    NoRows { path: PathBuf, rows: u64 },
    #[error("all flights are equally late: {path}")]
    OneOutcome { path: PathBuf },
    #[error("predictor depends on those before it: {predictor}")]
    Dependent { predictor: String },
    #[error("cannot write data: {path} ({source})")]
    Write { path: PathBuf, source: io::Error },
    #[error("stopped by a signal after so many {what}: {count}")]
    Interrupted { what: &'static str, count: u64 },
    #[error("cannot start threads: {count} ({reason})")]
    Threads { count: u32, reason: String },
    #[error(transparent)]
    Memory(#[from] NoRoom),
    #[error(
        "not enough memory for {values} values of {predictor}: {needed_bytes} bytes needed, {available_bytes} available"
    )]
    Wide { predictor: &'static str, values: usize, needed_bytes: u64, available_bytes: u64 },
    #[error(
        "not enough memory for so many flights: {flights} ({needed_bytes} bytes needed, {available_bytes} available)"
    )]
    Flights { flights: u64, needed_bytes: u64, available_bytes: u64 },
    #[error("no place for generated flights: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    #[error(transparent)]
    Signals(#[from] StallError),
}

/// An error if a signal has arrived, after so many steps. Before the first `generate`, which cleans up after
/// a signal, a signal ends the process at once.
pub fn go_on(steps: u64) -> Result<(), H2oError> {
    if interrupt::stopped() {
        return Err(H2oError::Interrupted { what: "steps", count: steps });
    }
    Ok(())
}

impl H2oError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::NoFile { .. } | Self::Empty { .. } => {
                "make a file with `guestscope-workloads h2o generate FILE`, or leave it out to use generated flights"
            }
            Self::Header { .. } | Self::Column { .. } => {
                "the columns are those of the ASA's Data Expo 2009, in its order; `h2o generate --rows 1 FILE` shows them"
            }
            Self::LongLine { .. } => "a quotation mark in this line or before it is never closed",
            Self::NoRows { .. } | Self::OneOutcome { .. } => {
                "rows need a number or a name in each of Year, Month, DayofMonth, DayOfWeek, CRSDepTime, UniqueCarrier, \
                 Origin, Dest, Distance and DepDelay"
            }
            Self::Dependent { .. } => "take more rows, or a larger --l2",
            Self::Write { .. } => {
                "name a file in a folder that can be written to, on a disk with 106 MB for each million rows"
            }
            Self::Interrupted { .. } => "nothing was left behind; start it again",
            Self::Threads { .. } => "try fewer --threads, and see `ulimit -u` and pids.max of the cgroup",
            Self::Memory(_) => "try a smaller --batch, --hidden or --rows",
            Self::Wide { .. } => {
                "see whether this column holds what its name says; each value is a predictor of its own"
            }
            Self::Flights { .. } => {
                "take fewer flights (--rows, or a part of the file); of `h2o mlp` also a smaller --batch or --hidden"
            }
            Self::NoCache => {
                "set XDG_CACHE_HOME to a folder that can be written to, or name a file of flights"
            }
            Self::Signals(error) => error.hint(),
        }
    }
}
