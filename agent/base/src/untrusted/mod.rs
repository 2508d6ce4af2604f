//! Text that others chose: names of threads, phases, groups and devices, paths, command lines, messages of
//! libraries and servers.
//!
//! [`Untrusted`] can be formatted in one way only, without control sequences for a terminal, and without
//! passing for other text. The rule, for everything that people read: a line end or a tab becomes a space;
//! any other character that a terminal obeys, that changes the direction of writing, or that has no width and
//! is no accent, becomes U+FFFD; beyond [`LONGEST`] characters the rest becomes an ellipsis. All other text
//! stays as it is. Tables and JSON keep the exact text, JSON as [`crate::json`] writes it.
//!
//! There is no way around it, because it is no `str` and lends none:
//!
//! ```compile_fail,E0614
//! let name = guestscope_base::untrusted::Untrusted::from("\u{1b}[2J");
//! println!("{}", *name);
//! ```
//! ```compile_fail,E0308
//! let name = guestscope_base::untrusted::Untrusted::from("\u{1b}[2J");
//! let text: &str = &name;
//! ```
//! ```compile_fail,E0277
//! let name = guestscope_base::untrusted::Untrusted::from("\u{1b}[2J");
//! fn print(text: impl AsRef<str>) {}
//! print(name);
//! ```
//! ```compile_fail,E0599
//! let name = guestscope_base::untrusted::Untrusted::from("\u{1b}[2J");
//! println!("{}", name.as_str());
//! ```
//! ```
//! let name = guestscope_base::untrusted::Untrusted::from("\u{1b}[2J");
//! assert_eq!(format!("{name}"), "\u{fffd}[2J");
//! ```

use std::{
    borrow::Cow,
    ffi::OsStr,
    fmt::{self, Write as _},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Replacement for what may not be shown.
pub const REPLACEMENT: char = '\u{fffd}';
/// Longest text shown, in characters: a message of a collector may be a whole page.
pub const LONGEST: usize = 4096;
/// Longest quotation inside a sentence of this program, in characters.
pub const LONGEST_QUOTED: usize = 300;

/// Text from outside, cheap to copy. Formatting makes it fit for people; [`Untrusted::stored`] gives it
/// unchanged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Untrusted(Arc<str>);

impl Untrusted {
    /// Text from bytes; invalid UTF-8 becomes U+FFFD.
    #[expect(clippy::disallowed_methods, reason = "the text is untrusted from here on")]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::from(String::from_utf8_lossy(bytes))
    }

    /// A name or an argument.
    #[expect(clippy::disallowed_methods, reason = "the text is untrusted from here on")]
    pub fn of_os(text: &OsStr) -> Self {
        Self::from(text.to_string_lossy())
    }

    /// Text by which another library's value describes itself: an error that quotes a file, a status of a
    /// server. It is quoted inside sentences, so it is cut here to one line of at most [`LONGEST_QUOTED`]
    /// characters.
    pub fn told(what: impl fmt::Display) -> Self {
        let mut quoted = Quoted::default();
        // The writer stops when it has enough.
        let _ = write!(quoted, "{what}");
        Self::from(quoted.0)
    }

    /// The exact text, to keep or compare. Never for people to read: formatting is.
    pub fn stored(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, formatted.
    pub fn plain(&self) -> Cow<'_, str> {
        plain(&self.0)
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.plain())
    }
}

/// For developers: characters that may not be printed appear as code points.
impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars().take(LONGEST) {
            match c {
                _ if is_unsafe(c) => write!(f, "{}", c.escape_unicode())?,
                '\'' => f.write_char(c)?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        f.write_char('"')
    }
}

impl Default for Untrusted {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl From<Arc<str>> for Untrusted {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<&String> for Untrusted {
    fn from(text: &String) -> Self {
        Self(Arc::from(text.as_str()))
    }
}

impl From<Cow<'_, str>> for Untrusted {
    fn from(text: Cow<'_, str>) -> Self {
        Self(Arc::from(&*text))
    }
}

impl From<&Untrusted> for Untrusted {
    fn from(text: &Untrusted) -> Self {
        text.clone()
    }
}

impl PartialEq<str> for Untrusted {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Untrusted {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

/// The exact text: escaping is for the format, see [`crate::json`].
impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Untrusted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// A writer that takes text as one line, up to a length.
#[derive(Debug, Default)]
struct Quoted(String);

impl fmt::Write for Quoted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let is_space = c.is_whitespace();
            if is_space && (self.0.is_empty() || self.0.ends_with(' ')) {
                continue;
            }
            // Bytes first, which is a fast check.
            if self.0.len() >= LONGEST_QUOTED && self.0.chars().count() >= LONGEST_QUOTED {
                self.0.push('\u{2026}');
                return Err(fmt::Error);
            }
            self.0.push(if is_space { ' ' } else { c });
        }
        Ok(())
    }
}

/// The first 20 quotations, separated by commas, and the number of the rest.
pub fn listed<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    const MOST: usize = 20;
    let mut all = all.into_iter();
    let mut shown: Vec<String> =
        all.by_ref().take(MOST).map(|one| Untrusted::told(one).to_string()).collect();
    let more = all.count();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

/// Texts joined by a separator.
pub fn join(parts: &[Untrusted], between: &str) -> Untrusted {
    let parts: Vec<&str> = parts.iter().map(Untrusted::stored).collect();
    parts.join(between).into()
}

/// Text on one line, by the rule of this module.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_short = text.len() <= LONGEST || text.chars().nth(LONGEST).is_none();
    if is_short && !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        _ if is_unsafe(c) => REPLACEMENT,
        _ => c,
    };
    let mut plain: String = text.chars().take(LONGEST).map(shown).collect();
    if !is_short {
        plain.push('\u{2026}');
    }
    Cow::Owned(plain)
}

/// Part of a line, of any length, by the same rule.
pub fn plain_part(text: &str) -> Cow<'_, str> {
    match plain_lines(text) {
        plain if plain.contains('\n') => Cow::Owned(plain.replace('\n', " ")),
        plain => plain,
    }
}

/// Text of several lines by the same rule, of any length: a last check before output.
pub fn plain_lines(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_unsafe(c)) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        '\n' => '\n',
        '\r' | '\t' => ' ',
        _ if is_unsafe(c) => REPLACEMENT,
        _ => c,
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// [`plain_lines`], which keeps this program's own emphasis: `ESC [ 1;31 m`.
pub fn plain_colored(text: &str) -> Cow<'_, str> {
    let is_emphasis = |code: &str| code.len() <= 12 && code.bytes().all(|c| c.is_ascii_digit() || c == b';');
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map(plain_lines).unwrap_or_default();
    parts.fold(first, |mut plain, part| {
        let code = part.strip_prefix('[').and_then(|part| part.split_once('m'));
        match code.filter(|(code, _)| is_emphasis(code)) {
            Some((code, rest)) => {
                let _ = write!(plain.to_mut(), "\u{1b}[{code}m{}", plain_lines(rest));
            }
            None => {
                let _ = write!(plain.to_mut(), "{REPLACEMENT}{}", plain_lines(part));
            }
        }
        plain
    })
}

/// Paths and arguments that can be shown to people.
pub trait Shown {
    /// Text that can be shown.
    fn shown(&self) -> Untrusted;
}

impl Shown for Path {
    fn shown(&self) -> Untrusted {
        Untrusted::of_os(self.as_os_str())
    }
}

impl Shown for OsStr {
    fn shown(&self) -> Untrusted {
        Untrusted::of_os(self)
    }
}

/// Characters replaced by whitespace or U+FFFD in text for people.
///
/// Controls (C0, DEL, C1); format characters: direction of writing, joiners, tags (Unicode's category Cf);
/// separators of lines and paragraphs; letters without a shape (fillers); noncharacters, and private use,
/// which has another shape in each font.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || (c > '~' && is_unseen(c))
}

fn is_unseen(c: char) -> bool {
    matches!(c,
        // Category Cf.
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Lines and paragraphs.
        | '\u{2028}' | '\u{2029}'
        // Without a shape.
        | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
        // Private, no characters, and the plane of tags.
        | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests;
