//! One thing that is set up once per machine, as a step that people can follow: found in the cache, or made.
//!
//! Yields the folder of a finished entry. What to do, and what it is made from, its caller says.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    Xtask,
    command::{LIMIT, Run},
};

/// A thing to set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Name of the entry in the cache, and of the log.
    pub(crate) name: &'a str,
    /// Everything that the result depends on.
    pub(crate) inputs: &'a [&'a str],
    /// Name for people.
    pub(crate) label: &'a str,
    /// What was done, in a word, for people.
    pub(crate) done: &'a str,
}

/// The folder of the entry, made by `make` if it is not there.
pub(crate) fn obtain(
    xtask: &Xtask,
    wanted: Wanted,
    make: impl FnOnce(&Run, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let Wanted { name, inputs, label, done } = wanted;
    if let Some(path) = xtask.cache.finished(name, inputs) {
        xtask.progress.present(label, "present");
        return Ok(path);
    }
    let step = xtask.progress.step(label);
    let log = xtask.log(name);
    match xtask.cache.ensure(name, inputs, |at| make(&Run { step: &step, log: &log, limit: LIMIT }, at)) {
        Ok(path) => {
            step.done(done);
            Ok(path)
        }
        Err(error) => {
            step.failed();
            Err(error)
        }
    }
}

/// Runs one command as a step.
pub(crate) fn command(
    xtask: &Xtask,
    label: &str,
    log: &str,
    done: &str,
    command: &mut std::process::Command,
) -> Result<String> {
    let step = xtask.progress.step(label);
    let log = xtask.log(log);
    match (Run { step: &step, log: &log, limit: LIMIT }).check(command) {
        Ok(text) => {
            step.done(done);
            Ok(text)
        }
        Err(error) => {
            step.failed();
            Err(error)
        }
    }
}
