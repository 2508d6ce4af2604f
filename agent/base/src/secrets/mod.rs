//! Command lines for people and files, with their secrets masked. Pure.
//!
//! Yields the same words with [`MASK`] in place of passwords, tokens and keys: found by the name of their
//! option, variable or header, by well-known shapes, and by their place in a URL. In doubt it masks. A secret
//! with neither a telling name nor a known shape is not found: `--no-args` is for those.

mod names;
mod programs;
#[cfg(test)]
mod row_tests;
mod tables;
#[cfg(test)]
mod tests;
mod urls;

use self::{
    names::{is_of_name, name_at_end, of_call, of_name},
    programs::{Known, Program, Value, program},
    tables::{PLAIN, SCHEMES, SETTERS},
    urls::{bare, is_random},
};

/// Replacement for a secret.
pub const MASK: &str = "***";

/// A command line with its secrets masked.
pub fn masked<W: AsRef<str>>(words: &[W]) -> Vec<String> {
    let mut reader = Reader::default();
    words.iter().map(|word| reader.word(word.as_ref())).collect()
}

/// A path, a message or a URL, masked in the same way.
pub fn masked_text(text: &str) -> String {
    Reader::default().text(text)
}

/// The secret part of a value; later variants hide more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Secret {
    #[default]
    Nothing,
    /// The value of `--tokens`: all, unless it is a number or a plain word.
    Count,
    /// The value of `--pin`: all, unless it is a plain word or numbers of CPUs.
    Pin,
    /// The value of `--key`: all, unless it is a path, a number or a plain word.
    Opaque,
    /// The value of curl's `-b`: all, if it assigns something; otherwise it is a file.
    Pairs,
    /// The value of `--user`: the part after this character.
    After(char),
    /// The part between a slash and the host: `scott/tiger@host`.
    AfterSlash,
    All,
}

/// What the words so far say about the next one.
#[derive(Clone, Copy, Default)]
struct Due {
    secret: Secret,
    /// Whether a colon or an equals sign must come before it: a name stood alone.
    assigned: bool,
}

impl Due {
    fn now(secret: Secret) -> Self {
        Self { secret, assigned: false }
    }

    fn is_now(self) -> bool {
        self.secret != Secret::Nothing && !self.assigned
    }
}

#[derive(Default)]
struct Reader {
    next: Due,
    /// The last named program with a table of options.
    program: Option<&'static Program>,
    /// Whether the command sets something: the word after a name that stands alone is its value.
    sets: bool,
}

impl Reader {
    /// Masks a word as the program gets it: its value ends where the word does.
    fn word(&mut self, word: &str) -> String {
        let due = std::mem::take(&mut self.next);
        let whole = whole_assignment(word);
        let is_text = word.contains(is_break) && whole.is_none();
        if due.is_now() || (due.assigned && whole.is_none() && self.is_value(word)) {
            // What it looks like counts all the same: `--token --password abc`.
            self.heed(word, due);
            return hide(due.secret, word);
        }
        if let Some((before, secret, value)) = whole {
            self.heed(value, Due::now(Secret::All));
            return before.to_owned() + &hide(secret, value);
        }
        if is_text { self.text(word) } else { self.piece(word, due) }
    }

    /// Masks many words in one, with quotes: a script, a header, JSON.
    fn text(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while !rest.is_empty() {
            let from = rest.find(|c: char| !is_break(c)).unwrap_or(rest.len());
            let (breaks, after) = rest.split_at(from);
            out.push_str(breaks);
            let due = std::mem::take(&mut self.next);
            let quote = breaks.chars().last().filter(|&c| is_quote(c));
            // A quoted secret may have blanks in it.
            let end = match quote {
                Some(quote) if due.is_now() || (due.assigned && self.is_value(after)) => after.find(quote),
                _ => after.find(is_break),
            };
            let (piece, after) = after.split_at(end.unwrap_or(after.len()));
            rest = after;
            if piece.is_empty() {
                self.next = due;
                continue;
            }
            out.push_str(&self.piece(piece, due));
        }
        out
    }

    /// Masks a piece without blanks and quotes, or a quoted secret.
    fn piece(&mut self, piece: &str, due: Due) -> String {
        let is_value = due.assigned && self.is_value(piece);
        let known = self.joined(piece);
        self.heed(piece, due);
        if is_value && !piece.contains(char::is_alphanumeric) {
            // `"token", "abc"`
            self.next = due;
            return piece.to_owned();
        }
        if due.assigned {
            let value = piece.trim_start_matches(is_assignment);
            if value.len() < piece.len() {
                if value.is_empty() {
                    self.next = Due::now(due.secret);
                    return piece.to_owned();
                }
                return piece[..piece.len() - value.len()].to_owned() + &hide(due.secret, value);
            }
        }
        if due.is_now() || is_value {
            return hide(due.secret, piece);
        }
        if let Some((secret, value)) = known {
            return piece[..piece.len() - value.len()].to_owned() + &hide(secret, value);
        }
        let piece = bare(piece);
        match assignment(&piece) {
            Some((before, secret, value)) => before.to_owned() + &hide(secret, value),
            None => piece,
        }
    }

    /// Whether this piece is the value of the name before it, which stood alone.
    fn is_value(&self, piece: &str) -> bool {
        self.sets && !piece.starts_with(['-', ':', '=']) && !SETTERS.contains(&piece)
    }

    /// Records what this piece says about the next word.
    fn heed(&mut self, piece: &str, due: Due) {
        let name = piece.rsplit('/').next().unwrap_or(piece);
        self.program = program(name).or(self.program);
        if SETTERS.contains(&piece) {
            self.sets = true;
        } else if piece.ends_with([';', '|', '&']) {
            // Another command follows.
            self.sets = false;
        }
        self.next = self.follows(piece, due.secret);
    }

    fn follows(&self, piece: &str, due: Secret) -> Due {
        let scheme = piece.to_ascii_lowercase();
        if scheme == "bearer" || (due == Secret::All && SCHEMES.contains(&scheme.as_str())) {
            return Due::now(Secret::All);
        }
        if let Some(before) = piece.strip_suffix(is_assignment) {
            return Due::now(of_name(name_at_end(before)));
        }
        if let Some(before) = piece.strip_suffix('(') {
            return Due::now(of_call(name_at_end(before)));
        }
        let known = self.known().find(|known| known.name == piece && known.value != Value::Joined);
        if let Some(known) = known {
            return Due::now(known.secret);
        }
        let assigns = piece.contains(is_assignment);
        if piece.starts_with('-') && !assigns {
            return Due::now(of_name(piece));
        }
        let secret = of_name(name_at_end(piece));
        let is_name = matches!(secret, Secret::All | Secret::Count) && (self.sets || !assigns);
        if is_name { Due { secret, assigned: true } } else { Due::default() }
    }

    /// Options of the last program named.
    fn known(&self) -> impl Iterator<Item = &'static Known> {
        self.program.iter().flat_map(|program| program.options)
    }

    /// An option of the program joined with its value.
    fn joined<'a>(&self, piece: &'a str) -> Option<(Secret, &'a str)> {
        self.known().filter(|known| known.value != Value::Next).find_map(|known| {
            let value = piece.strip_prefix(known.name)?;
            (!value.is_empty()).then_some((known.secret, value))
        })
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`')
}

fn is_break(c: char) -> bool {
    c.is_whitespace() || is_quote(c) || c == '\0'
}

fn is_assignment(c: char) -> bool {
    #[cfg(test)]
    tests::step();
    matches!(c, '=' | ':')
}

/// `--NAME=value`, `NAME=value` or `Name: value` at the start of a word, with a secret name. The value is all
/// that follows.
fn whole_assignment(word: &str) -> Option<(&str, Secret, &str)> {
    let at = word.find(is_assignment)?;
    let (name, value) = (&word[..at], &word[at + 1..]);
    let secret = if name.chars().all(is_of_name) { of_name(name) } else { Secret::Nothing };
    (secret == Secret::All && !value.is_empty()).then_some((&word[..=at], secret, value))
}

/// The first assignment to a secret name somewhere in a piece: `?token=abc`, `f(password=x)`.
fn assignment(piece: &str) -> Option<(&str, Secret, &str)> {
    piece.match_indices(|c| is_assignment(c) || c == '(').find_map(|(at, sign)| {
        let name = name_at_end(&piece[..at]);
        let secret = if sign == "(" { of_call(name) } else { of_name(name) };
        // `host:port`, `user:password` and clock times have colons, too.
        let secret = if sign == ":" && secret != Secret::All { Secret::Nothing } else { secret };
        // Checked before the value is searched: otherwise steps grow with the square of a row of equals
        // signs.
        if secret == Secret::Nothing {
            return None;
        }
        let value = piece[at + 1..].trim_start_matches(is_assignment);
        let before = &piece[..piece.len() - value.len()];
        let is_scheme = value.starts_with("//");
        (!value.is_empty() && !is_scheme).then_some((before, secret, value))
    })
}

fn hide(secret: Secret, value: &str) -> String {
    let is_all = match secret {
        Secret::Nothing => false,
        Secret::All => true,
        Secret::Count => !is_plain(value) && !value.trim_matches(is_sign).bytes().all(is_count),
        Secret::Pin => {
            !is_plain(value) && !value.split([',', '-', ':']).all(|cpu| cpu.len() < 4 && is_number(cpu))
        }
        Secret::Opaque => !is_plain(value) && !is_path(value) && value.parse::<u32>().is_err(),
        Secret::Pairs => value.contains('='),
        Secret::After(sign) => {
            return match value.split_once(sign) {
                // `--user 1000:1000` is no password.
                Some((user, word)) if !(is_number(user) && is_number(word)) => {
                    format!("{}{sign}{MASK}", bare(user))
                }
                _ => bare(value),
            };
        }
        Secret::AfterSlash => return after_slash(value),
    };
    if is_all { MASK.to_owned() } else { bare(value) }
}

/// Masks `scott/tiger@host`; neither a path nor a script nor an option.
fn after_slash(value: &str) -> String {
    match value.split_once('/') {
        Some((user, rest)) if !user.is_empty() && !value.starts_with(['.', '@', '-']) && !rest.is_empty() => {
            let host = rest.rfind('@').map_or("", |at| &rest[at..]);
            format!("{user}/{MASK}{host}")
        }
        _ => bare(value),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_count(byte: u8) -> bool {
    byte.is_ascii_digit() || b".,-+_ek".contains(&byte)
}

fn is_sign(c: char) -> bool {
    !c.is_alphanumeric()
}

fn is_plain(value: &str) -> bool {
    PLAIN.contains(&value.trim_matches(is_sign).to_ascii_lowercase().as_str())
}

/// Whether the value is a path, such as `tls.pem` or `/etc/key`; what may also be Base64 is not.
fn is_path(value: &str) -> bool {
    let begins = ["/", "./", "../", "~", "file:"].iter().any(|begin| value.starts_with(begin));
    !value.ends_with('=') && (begins || (value.contains(['/', '.']) && !is_random(value)))
}
