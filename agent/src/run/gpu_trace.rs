//! What `--gpu-trace` puts beside the program: a library that libcuda loads into it.

use std::{io, path::Path};

use crate::{
    gpu::trace::{self, Schedule},
    session::traced::Traces,
    sources::{Unpacked, Variable},
};

/// The library's file.
pub(super) fn file() -> io::Result<Unpacked> {
    Ok(Unpacked { path: trace::FILE.into(), bytes: trace::library()?.into(), is_library: true })
}

/// Adds the variable by which libcuda finds it in `folder`, unless that names another tool.
pub(super) fn prepare(asked: Option<Schedule>, folder: &Path, variables: &mut Vec<Variable>) -> Traces {
    let Some(schedule) = asked else { return Traces::default() };
    if std::env::var_os(trace::VARIABLE).is_some_and(|theirs| !theirs.is_empty()) {
        let why = format!("another tool holds the injection ({} is set)", trace::VARIABLE);
        return Traces::new(schedule, Some(&why));
    }
    variables.push((trace::VARIABLE, folder.join(trace::FILE).into()));
    Traces::new(schedule, None)
}
