//! Lines of a page: pieces with emphasis, wrapped where they are too long, tables with aligned columns.
//!
//! Yields one text. Emphasis is added last, around text whose width is already fixed, so that it cannot
//! disturb the layout; without colour there is none.

use std::{borrow::Cow, fmt::Write as _};

use crate::untrusted::{self, Untrusted};

use super::{
    style::Style,
    text::{fit, left, plain, right, width},
};

/// Emphasis of a piece. Never the only carrier of a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Emphasis {
    #[default]
    None,
    /// The answer.
    Strong,
    /// Headings and side notes.
    Faint,
    Good,
    Warning,
    Bad,
    /// A colour of the bar.
    Color(u8),
}

impl Emphasis {
    /// Select Graphic Rendition, ECMA-48 section 8.3.117.
    fn code(self) -> Option<String> {
        match self {
            Emphasis::None => None,
            Emphasis::Strong => Some("1".to_owned()),
            Emphasis::Faint => Some("2".to_owned()),
            Emphasis::Good => Some("32".to_owned()),
            Emphasis::Warning => Some("33".to_owned()),
            Emphasis::Bad => Some("1;31".to_owned()),
            Emphasis::Color(color) => Some(format!("38;5;{color}")),
        }
    }
}

/// Text with one emphasis, always safe to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    text: String,
    emphasis: Emphasis,
}

impl Piece {
    pub(super) fn new(text: impl Into<String>, emphasis: Emphasis) -> Self {
        // Foreign text was made safe before, with its width; this check cannot be bypassed, and a piece has
        // no line ends.
        let text = text.into();
        let text = match untrusted::plain_part(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(safe) => safe,
        };
        Self { text, emphasis }
    }

    pub(super) fn width(&self) -> usize {
        width(&self.text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) const fn emphasis(&self) -> Emphasis {
        self.emphasis
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::new(text, Emphasis::None)
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::new(text, Emphasis::None)
    }
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A page that grows line by line.
#[derive(Debug)]
pub(super) struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    pub(super) const fn style(&self) -> Style {
        self.style
    }

    /// Foreign text, safe to print.
    pub(super) fn safe(&self, text: impl Into<Untrusted>) -> String {
        plain(text.into().stored(), self.style.unicode)
    }

    /// Foreign text for a table: safe, and at most `columns` wide.
    pub(super) fn name(&self, text: impl Into<Untrusted>, columns: usize) -> String {
        fit(&self.safe(text), columns, self.style.unicode)
    }

    /// Text cut to this width.
    pub(super) fn fit(&self, text: &str, columns: usize) -> String {
        fit(text, columns, self.style.unicode)
    }

    /// Bytes so far.
    pub(super) const fn length(&self) -> usize {
        self.text.len()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Appends one line, without spaces at its end.
    pub(super) fn line(&mut self, pieces: &[Piece]) {
        let mut line = String::new();
        for run in pieces.chunk_by(|a, b| a.emphasis == b.emphasis) {
            let text: String = run.iter().map(|piece| piece.text.as_str()).collect();
            match run[0].emphasis.code().filter(|_| self.style.color && !text.trim().is_empty()) {
                // Trailing spaces stay outside the escape, so that those at the end of the line can go.
                Some(code) => {
                    let shown = text.trim_end();
                    let _ = write!(line, "\x1b[{code}m{shown}\x1b[0m{}", &text[shown.len()..]);
                }
                None => line.push_str(&text),
            }
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Words after a heading, on as many lines as they need, all behind the heading's columns.
    pub(super) fn wrapped(&mut self, heading: &[Piece], indent: usize, words: Vec<Piece>) {
        let mut used = heading.iter().map(Piece::width).sum::<usize>();
        let mut line = heading.to_vec();
        line.push(Piece::from(" ".repeat(indent.saturating_sub(used))));
        used = used.max(indent);
        let mut is_empty = true;
        for word in split_long(words, self.style.width.saturating_sub(indent).max(1)) {
            if !is_empty && used + 1 + word.width() > self.style.width {
                self.line(&line);
                line = vec![Piece::from(" ".repeat(indent))];
                used = indent;
            } else if !is_empty {
                line.push(Piece::new(" ", word.emphasis));
                used += 1;
            }
            used += word.width();
            line.push(word);
            is_empty = false;
        }
        self.line(&line);
    }

    /// A sentence, wrapped with an indent from its second line on.
    pub(super) fn sentence(&mut self, text: &str, emphasis: Emphasis) {
        let mut line: Vec<Piece> = Vec::new();
        let mut used = 0;
        for word in split_long(words(text, emphasis), self.style.width - 2) {
            if line.is_empty() {
                used = word.width();
                line.push(word);
            } else if used + 1 + word.width() > self.style.width {
                self.line(&line);
                used = 2 + word.width();
                line = vec![Piece::from("  "), word];
            } else {
                used += 1 + word.width();
                line.extend([Piece::new(" ", emphasis), word]);
            }
        }
        self.line(&line);
    }

    /// Rows under a heading, columns aligned and two spaces apart. Pieces after the last column follow
    /// without alignment.
    pub(super) fn table(&mut self, aligns: &[Align], rows: &[Vec<Piece>]) {
        let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(Piece::width).max();
        let widths: Vec<usize> = (0..aligns.len()).map(|column| widest(column).unwrap_or(0)).collect();
        for row in rows {
            let mut line = Vec::with_capacity(row.len() * 2);
            for (column, piece) in row.iter().enumerate() {
                if (1..=aligns.len()).contains(&column) {
                    line.push(Piece::from("  "));
                }
                let text = match aligns.get(column) {
                    Some(Align::Left) => left(&piece.text, widths[column]),
                    Some(Align::Right) => right(&piece.text, widths[column]),
                    None => piece.text.clone(),
                };
                line.push(Piece { text, emphasis: piece.emphasis });
            }
            self.line(&line);
        }
    }
}

/// Units that stay with their numbers.
const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "B", "kB", "MB", "GB", "TB", "%"];

/// A text as its words, each with the same emphasis. A unit belongs to the number before it.
pub(super) fn words(text: &str, emphasis: Emphasis) -> Vec<Piece> {
    let mut words: Vec<Piece> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ')', ';', ':']));
        match words.last_mut().filter(|last| is_unit && last.text.ends_with(|c: char| c.is_ascii_digit())) {
            Some(number) => {
                number.text.push(' ');
                number.text.push_str(word);
            }
            None => words.push(Piece::new(word, emphasis)),
        }
    }
    words
}

/// Splits words wider than a line, such as a path or a foreign name.
fn split_long(words: Vec<Piece>, columns: usize) -> Vec<Piece> {
    let mut short = Vec::with_capacity(words.len());
    for word in words {
        let mut part = String::new();
        for c in word.text.chars() {
            if width(&part) + width(c.encode_utf8(&mut [0; 4])) > columns {
                short.push(Piece::new(std::mem::take(&mut part), word.emphasis));
            }
            part.push(c);
        }
        short.push(Piece::new(part, word.emphasis));
    }
    short
}
