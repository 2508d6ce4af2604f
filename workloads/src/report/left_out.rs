//! Files that a run left out because they could not be used. Yields lines for people.

use crate::data::file_set::Skipped;

/// Files or records that are named where some were left out.
const NAMED: usize = 3;

/// How many, then the first of them; each with the name of its line.
pub(crate) fn lines(skipped: &Skipped) -> Vec<(&'static str, String)> {
    if skipped.is_empty() {
        return Vec::new();
    }
    let what = if skipped.len() == 1 { "file or record" } else { "files or records" };
    let mut lines = vec![("left out", format!("{} {what} that could not be used", skipped.len()))];
    for (path, reason) in skipped.iter().take(NAMED) {
        // Names of files may hold what a terminal obeys.
        lines.push(("", printable(&format!("{}: {reason}", path.display()))));
    }
    lines
}

/// Without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
