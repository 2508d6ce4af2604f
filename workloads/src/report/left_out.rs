//! Files that a run left out because they could not be used. Yields their number for a report and their names
//! for a warning.

use std::{
    fmt::{self, Write as _},
    path::Path,
};

use serde::Serialize;

use crate::data::file_set::Skipped;
#[cfg(feature = "torch")]
use crate::digest::Digest;

/// Files or records named in the warning for people.
const NAMED: usize = 3;
/// Files or records named in the JSON; the count is always complete.
const LISTED: usize = 1000;

/// A file or record that was left out, as in the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// Its path, below the folder as the user named it.
    file: String,
    reason: String,
}

impl LeftOut {
    pub(crate) fn new(path: &Path, reason: String) -> Self {
        Self { file: path.display().to_string(), reason }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, reason } = self;
        write!(f, "{file}: {reason}")
    }
}

fn by_name(skipped: &Skipped) -> impl Iterator<Item = LeftOut> {
    skipped.iter().map(|(path, reason)| LeftOut::new(path, reason.clone()))
}

/// The first `LISTED` of them, for the JSON.
pub(crate) fn listed(skipped: &Skipped) -> Vec<LeftOut> {
    by_name(skipped).take(LISTED).collect()
}

/// The very first, for an error; empty if there is none.
pub(crate) fn first(skipped: &Skipped) -> String {
    by_name(skipped).next().map(|one| one.to_string()).unwrap_or_default()
}

/// A report line with their number; none if all files could be used.
pub(crate) fn line(skipped: &Skipped) -> Option<(&'static str, String)> {
    (!skipped.is_empty()).then(|| ("left out", format!("{} that could not be used", count(skipped))))
}

/// A warning: their number, a line for each of the first, and how many more there are. None if all could be
/// used.
pub(crate) fn warning(skipped: &Skipped) -> Option<String> {
    if skipped.is_empty() {
        return None;
    }
    let mut warning = format!("not all could be used: {} left out", count(skipped));
    for one in by_name(skipped).take(NAMED) {
        // Writing to a String cannot fail; names of files may hold what a terminal obeys.
        let _ = write!(warning, "\n  {}", printable(&one.to_string()));
    }
    if skipped.len() > NAMED {
        let _ = write!(warning, "\n  and {} more", skipped.len() - NAMED);
    }
    Some(warning)
}

/// Adds them to the hash of a workload, since others took their place: file names without folders, which
/// differ between machines.
#[cfg(feature = "torch")]
pub(crate) fn describe(skipped: &Skipped, hash: &mut Digest) {
    for path in skipped.keys() {
        hash.text("without").text(&path.file_name().unwrap_or_default().to_string_lossy());
    }
}

fn count(skipped: &Skipped) -> String {
    let what = if skipped.len() == 1 { "file or record" } else { "files or records" };
    format!("{} {what}", skipped.len())
}

/// Removes control characters, which a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
