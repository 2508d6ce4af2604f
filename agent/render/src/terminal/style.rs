//! Style of text: width, colour, character set. The only module that queries the terminal and the
//! environment.
//!
//! Yields [`Style`]. No setting of the terminal is changed.

use std::{
    env,
    io::{IsTerminal, stderr, stdout},
};

/// Width where there is no terminal to ask: files, pipes, logs.
const DEFAULT_WIDTH: usize = 100;
/// Bounds on the width: longer lines are hard to read, shorter ones hold no table.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Emphasis by colour.
    pub color: bool,
    /// Characters beyond ASCII.
    pub unicode: bool,
}

impl Style {
    /// Style of files and tests: 100 columns, only ASCII.
    pub const PLAIN: Style = Style { width: DEFAULT_WIDTH, color: false, unicode: false };

    /// Style of a stream of this process.
    #[expect(clippy::disallowed_methods, reason = "asked, and nothing is written")]
    pub fn detect(stream: Stream) -> Self {
        let (is_terminal, size) = match stream {
            Stream::Stdout => (stdout().is_terminal(), terminal_size::terminal_size_of(stdout())),
            Stream::Stderr => (stderr().is_terminal(), terminal_size::terminal_size_of(stderr())),
        };
        let columns = size.map(|(terminal_size::Width(columns), _)| usize::from(columns));
        Self::decide(is_terminal, columns, |name| env::var(name).ok())
    }

    /// `NO_COLOR` (no-color.org) and `TERM=dumb` switch colour off, as does anything that is no terminal; the
    /// locale decides on characters, in the order in which the C library reads it.
    pub(super) fn decide(
        is_terminal: bool,
        columns: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_none_or(|term| term == "dumb");
        let locale =
            ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_uppercase();
        let columns = columns.or_else(|| set("COLUMNS")?.parse().ok()).filter(|&columns| columns > 0);
        Self {
            // The last column stays free: some terminals wrap when it is written.
            width: columns
                .map_or(DEFAULT_WIDTH, |columns| (columns - 1).clamp(*WIDTHS.start(), *WIDTHS.end())),
            color: is_terminal && !is_dumb && set("NO_COLOR").is_none(),
            unicode: !(is_terminal && is_dumb) && (locale.contains("UTF-8") || locale.contains("UTF8")),
        }
    }

    /// Narrow terminals get fewer columns of a table.
    pub(super) const fn is_narrow(self) -> bool {
        self.width < 80
    }
}

/// A stream of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Data.
    Stdout,
    /// Everything else.
    Stderr,
}

/// Whether stderr is a terminal on which a line can be redrawn.
#[expect(clippy::disallowed_methods, reason = "asked, and nothing is written")]
pub(super) fn can_redraw() -> bool {
    stderr().is_terminal() && env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}
