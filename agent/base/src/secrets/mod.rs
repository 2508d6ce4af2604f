//! Command lines for people and files, with their secrets masked. Pure.
//!
//! Yields the same words with [`MASK`] in place of passwords, tokens and keys: found by the name of their
//! option, variable or header, by well-known shapes, and by their place in a URL. In doubt it masks. A secret
//! with neither a telling name nor a known shape is not found: `--no-args` is for those.

mod names;
mod programs;
#[cfg(test)]
mod row_tests;
mod secret;
mod tables;
#[cfg(test)]
mod tests;
mod urls;

pub use self::secret::MASK;
use self::{
    names::{is_of_name, name_at_end, of_call, of_name},
    programs::{Known, Program, Value, program},
    secret::{Secret, after_slash},
    tables::{PLAIN, SCHEMES, SETTERS},
    urls::{bare, is_random},
};

/// A command line with its secrets masked.
pub fn masked<W: AsRef<str>>(words: &[W]) -> Vec<String> {
    let mut reader = Reader::default();
    words.iter().map(|word| reader.word(word.as_ref())).collect()
}

/// A path, a message or a URL, masked in the same way.
pub fn masked_text(text: &str) -> String {
    Reader::default().text(text)
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
        let is_due = due.is_now() || (due.assigned && whole.is_none() && self.is_value(word));
        let hidden = if is_due { hide(due.secret, word) } else { None };
        if let Some(hidden) = hidden {
            let shown = self.usual(&hidden, Due::default());
            self.heed(word, &shown, due);
            return shown;
        }
        if let Some((before, value)) = whole {
            self.heed(value, MASK, Due::now(Secret::All));
            return before.to_owned() + MASK;
        }
        self.usual(word, due)
    }

    /// Masks a word of which nothing is known but what the words before it say.
    fn usual(&mut self, word: &str, due: Due) -> String {
        if word.contains(is_break) { self.text(word) } else { self.piece(word, due) }
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
            let is_due = due.is_now() || (due.assigned && self.is_value(after));
            // A quoted secret may have blanks in it.
            let quoted = quote.filter(|_| is_due).map(|quote| after.find(quote).unwrap_or(after.len()));
            let end = quoted.filter(|&end| hide(due.secret, &after[..end]).is_some());
            // Its first word is not the value then.
            let due = if quoted.is_some_and(|end| end > 0) && end.is_none() { Due::default() } else { due };
            let end = end.or_else(|| after.find(is_break)).unwrap_or(after.len());
            let (piece, after) = after.split_at(end);
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
        if is_value && !piece.contains(char::is_alphanumeric) && piece != MASK {
            // `"token", "abc"`
            self.heed(piece, piece, due);
            self.next = due;
            return piece.to_owned();
        }
        let value = piece.trim_start_matches(is_assignment);
        let is_assigned = due.assigned && value.len() < piece.len();
        if is_assigned && value.is_empty() {
            self.heed(piece, piece, due);
            self.next = Due::now(due.secret);
            return piece.to_owned();
        }
        let of_due = match (is_assigned, due.is_now() || is_value) {
            (true, _) => Some((due.secret, value)),
            (false, true) => Some((due.secret, piece)),
            (false, false) => None,
        };
        // Each hides what the others leave: where the words before are masked, they say no more what is due.
        let shown = with_hidden(piece, of_due);
        let shown = if shown.contains(is_break) {
            self.text(&shown)
        } else {
            let shown = bare(&with_hidden(&shown, self.joined(&shown)));
            assignment(&shown).unwrap_or(shown)
        };
        self.heed(piece, &shown, due);
        shown
    }

    /// Whether this piece is the value of the name before it, which stood alone.
    fn is_value(&self, piece: &str) -> bool {
        self.sets && !piece.starts_with(['-', ':', '=']) && !SETTERS.contains(&piece)
    }

    /// Records what this piece, shown so, says about the next word. What it looks like counts though it is
    /// masked: `--token --password abc`. It ends nothing then: a second masking of the line does not see it.
    fn heed(&mut self, piece: &str, shown: &str, due: Due) {
        let name = shown.rsplit('/').next().unwrap_or(shown);
        self.program = program(name).or(self.program);
        if SETTERS.contains(&piece) {
            self.sets = true;
        } else if shown.ends_with([';', '|', '&']) {
            // Another command follows.
            self.sets = false;
        }
        let (of_piece, of_shown) = (self.follows(piece, due.secret), self.follows(shown, due.secret));
        self.next = match (of_piece.secret, of_shown.secret) {
            (_, Secret::Nothing) => of_piece,
            (Secret::Nothing, _) => of_shown,
            (one, other) if one == other => {
                Due { assigned: of_piece.assigned && of_shown.assigned, ..of_piece }
            }
            (..) => Due::now(Secret::All),
        };
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
fn whole_assignment(word: &str) -> Option<(&str, &str)> {
    let at = word.find(is_assignment)?;
    let (name, value) = (&word[..at], &word[at + 1..]);
    let secret = if name.chars().all(is_of_name) { of_name(name) } else { Secret::Nothing };
    (secret == Secret::All && !value.is_empty()).then_some((&word[..=at], value))
}

/// Masks the first assignment of a secret somewhere in a piece: `?token=abc`, `f(password=x)`. None if there
/// is none.
fn assignment(piece: &str) -> Option<String> {
    // Values that turn out to be none, such as paths: each takes as many steps as there are characters left.
    let mut tries = 8_u32;
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
        if value.is_empty() || value.starts_with("//") {
            return None;
        }
        let secret = if tries == 0 { Secret::All } else { secret };
        tries = tries.saturating_sub(1);
        Some(piece[..piece.len() - value.len()].to_owned() + &hide(secret, value)?)
    })
}

/// A piece that ends with this value, which is hidden as far as it is secret.
fn with_hidden(piece: &str, value: Option<(Secret, &str)>) -> String {
    let hidden = value.and_then(|(secret, value)| {
        Some(piece[..piece.len() - value.len()].to_owned() + &hide(secret, value)?)
    });
    hidden.unwrap_or_else(|| piece.to_owned())
}

/// The value without its secret part; none if it has none.
fn hide(secret: Secret, value: &str) -> Option<String> {
    let is_all = match secret {
        Secret::Nothing => false,
        Secret::All => true,
        Secret::Count => !is_plain(value) && !value.trim_matches(is_sign).bytes().all(is_count),
        Secret::Pin => {
            !is_plain(value) && !value.split([',', '-', ':']).all(|cpu| cpu.len() < 4 && is_number(cpu))
        }
        // What made a value a path may be masked.
        Secret::Opaque => {
            !is_plain(value) && !is_path(value) && value.parse::<u32>().is_err() && !value.contains(MASK)
        }
        Secret::Pairs => value.contains('='),
        Secret::After(sign) => {
            let (user, word) = value.split_once(sign)?;
            // `--user 1000:1000` is no password.
            let is_password = !(is_number(user) && is_number(word));
            return is_password.then(|| format!("{}{sign}{MASK}", masked_text(user)));
        }
        Secret::AfterSlash => return after_slash(value),
    };
    is_all.then(|| MASK.to_owned())
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
