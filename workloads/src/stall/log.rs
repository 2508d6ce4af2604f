//! Log of what was injected: one line of JSON per fault, and per spared request if asked for. Writes each
//! request's lines as soon as it is over, between requests, so that a killed run leaves all but the last.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::error::StallError;

/// One injected fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Injection {
    pub kind: &'static str,
    /// Number of the request, as it is marked.
    pub request: u64,
    /// Start of the fault on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Size asked for: a time, or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_count: Option<u64>,
    /// Size injected, by the injector's own measure; the kind defines the clock.
    pub ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same fault as seen by the thread of the requests: elapsed time, its CPU time, and its time in run
    /// queues by /proc/thread-self/schedstat.
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
}

/// A spared request, as its thread saw it: the reference for an observer that names a cause there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spared {
    /// Always `spared`, so that no kind of fault is taken for it.
    pub kind: &'static str,
    /// Number of the request, as it is marked.
    pub request: u64,
    /// Start of the request on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Elapsed time, CPU time of the thread, and its time in run queues by /proc/thread-self/schedstat.
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
}

/// The log file, if there is one.
#[derive(Debug)]
pub struct Log(Option<(PathBuf, File)>);

impl Log {
    /// Starts a new log.
    pub fn create(path: Option<&Path>) -> Result<Self, StallError> {
        let Some(path) = path else { return Ok(Self(None)) };
        match File::create(path) {
            Ok(file) => Ok(Self(Some((path.to_owned(), file)))),
            Err(source) => Err(StallError::Log { path: path.to_owned(), source }),
        }
    }

    /// Writes the lines of one request: its faults, or that it was spared.
    pub fn write(&mut self, lines: &[impl Serialize]) -> Result<(), StallError> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        let lines: String = lines.iter().map(|one| crate::report::to_json(one) + "\n").collect();
        file.write_all(lines.as_bytes()).map_err(|source| StallError::Log { path: path.clone(), source })
    }
}
