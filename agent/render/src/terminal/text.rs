//! Makes untrusted text safe to print: names of phases and processes, paths, messages of a collector.
//!
//! Yields text without control characters, of known width. All text from outside this program passes here: an
//! escape sequence in a phase's name could otherwise rewrite the screen.

use unicode_width::UnicodeWidthChar;

use crate::untrusted::{LONGEST, REPLACEMENT, is_unsafe};

/// The text on one line, safe to print by the rule of [`crate::untrusted`]. Combining marks are removed, so
/// that its width is known; without Unicode only ASCII stays.
pub(super) fn plain(text: &str, unicode: bool) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => Some(' '),
        _ if is_unsafe(c) => Some(if unicode { REPLACEMENT } else { '?' }),
        ' '..='~' => Some(c),
        _ if !unicode => Some('?'),
        // Combining marks pile up, selectors hide: without them the width of a text is that of its parts.
        _ if c.width().unwrap_or(0) == 0 => None,
        _ => Some(c),
    };
    text.chars().take(LONGEST).filter_map(shown).collect()
}

/// Width of the text, columns.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text cut to so many columns, with a sign if it was cut.
pub(super) fn fit(text: &str, columns: usize, unicode: bool) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    kept.push(if unicode { '\u{2026}' } else { '~' });
    kept
}

/// The text with spaces behind it.
pub(super) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// The text with spaces before it.
pub(super) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A path quoted for a shell.
pub(super) fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}
