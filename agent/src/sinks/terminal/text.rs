//! Foreign text made fit for a terminal: names of phases and processes, paths, messages of a collector.
//!
//! Yields text without control characters, of known width. Everything that was not written in this program's source
//! passes here: an escape sequence in a phase's name could otherwise rewrite the screen.

use unicode_width::UnicodeWidthChar;

/// Stands for what may not be shown.
const REPLACEMENT: char = '\u{fffd}';
/// Longest text that is looked at, in characters: a message of a collector may be a whole page.
const LONGEST: usize = 4096;

/// The text on one line, safe to print. Control characters and what changes the direction of writing become a
/// replacement, line ends become spaces, what has no width of its own goes; without Unicode, only ASCII stays.
pub(super) fn plain(text: &str, unicode: bool) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => Some(' '),
        _ if is_unsafe(c) => Some(if unicode { REPLACEMENT } else { '?' }),
        ' '..='~' => Some(c),
        _ if !unicode => Some('?'),
        // Combining marks pile up, joiners and selectors hide: without them the width of a text is that of its parts.
        _ if c.width().unwrap_or(0) == 0 => None,
        _ => Some(c),
    };
    text.chars().take(LONGEST).filter_map(shown).collect()
}

/// Controls of the terminal (C0, DEL, C1), and of the direction of writing, with which a name can pretend to be another.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that the text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text, cut to so many columns with a sign that it was.
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
