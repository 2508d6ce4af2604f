//! The truth of a run: one line of JSON per injected fault, and per spared request where asked for. Yields lines as soon
//! as their request is over, so that a run that is killed leaves all but the last. Between requests, never inside one.

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
    /// The number of the request, as it is marked.
    pub request: u64,
    /// When it began, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// What was asked for: a time, or how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_count: Option<u64>,
    /// What was done, by the injector's own measure; the kind says which clock that is.
    pub ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same fault as the thread of the requests saw it: elapsed time, its own CPU time in it, and its time in run
    /// queues by /proc/thread-self/schedstat.
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
}

/// A request that was spared, as its thread saw it: what an observer that names a cause there is held against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spared {
    /// Always `spared`, so that no kind of fault is taken for it.
    pub kind: &'static str,
    /// The number of the request, as it is marked.
    pub request: u64,
    /// When it began, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Elapsed time, CPU time of the thread, and its time in run queues by /proc/thread-self/schedstat.
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
}

/// The file, if there is one.
#[derive(Debug)]
pub struct Log(Option<(PathBuf, File)>);

impl Log {
    /// Begins it anew.
    pub fn create(path: Option<&Path>) -> Result<Self, StallError> {
        let Some(path) = path else { return Ok(Self(None)) };
        match File::create(path) {
            Ok(file) => Ok(Self(Some((path.to_owned(), file)))),
            Err(source) => Err(StallError::Log { path: path.to_owned(), source }),
        }
    }

    /// What happened in one request: its faults, or that it was spared.
    pub fn write(&mut self, lines: &[impl Serialize]) -> Result<(), StallError> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        let lines: String = lines.iter().map(|one| crate::report::to_json(one) + "\n").collect();
        file.write_all(lines.as_bytes()).map_err(|source| StallError::Log { path: path.clone(), source })
    }
}
