//! Command lines for people and files, without what is secret in them. Pure.
//!
//! Yields the same words with [`MASK`] in place of passwords, tokens and keys: by the name of the option, the
//! variable or the header that they belong to, by well-known shapes, and where a URL has them. In doubt it
//! masks. It cannot know a secret that has neither a name nor a shape: for those there is `--no-args`.

mod tables;
#[cfg(test)]
mod tests;

use self::tables::{ENDS, KEYS, LAST, MODEL_TOKENS, NO_VALUES, SCHEMES, SHAPES, SHORT, Short, USERS};

/// Stands for a secret.
pub const MASK: &str = "***";

/// A command line without its secrets.
pub fn masked<W: AsRef<str>>(words: &[W]) -> Vec<String> {
    let mut reader = Reader::default();
    words.iter().map(|word| reader.word(word.as_ref())).collect()
}

/// One text, the same: a path, a message, a URL.
pub fn masked_text(text: &str) -> String {
    Reader::default().text(text)
}

/// How much of a value is secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Secret {
    #[default]
    Nothing,
    All,
    /// All, unless it is a path or a number: of `--key`.
    Opaque,
    /// What follows the colon: of `--user`.
    AfterColon,
    /// All, if it comes after a colon or an equals sign: a name stood alone.
    Assigned,
}

/// What the words so far say about the next one.
#[derive(Default)]
struct Reader {
    next: Secret,
    /// The last program that was named and has short options.
    program: Option<&'static str>,
}

impl Reader {
    /// A word as the program gets it: its value ends where the word does.
    fn word(&mut self, word: &str) -> String {
        let due = std::mem::take(&mut self.next);
        let whole = whole_assignment(word);
        let is_text = word.contains(is_break) && whole.is_none();
        if due != Secret::Nothing && due != Secret::Assigned {
            // What it seems to say is heeded all the same: `--token --password abc`.
            self.heed(word, due);
            return hide(due, word);
        }
        if let Some((before, secret, value)) = whole {
            self.heed(value, Secret::All);
            return before.to_owned() + &hide(secret, value);
        }
        if is_text { self.text(word) } else { self.piece(word, due) }
    }

    /// Many words in one, with quotes: a script, a header, JSON.
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
                Some(quote) if !matches!(due, Secret::Nothing | Secret::Assigned) => after.find(quote),
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

    /// Something without blanks and quotes, or a quoted secret.
    fn piece(&mut self, piece: &str, due: Secret) -> String {
        self.heed(piece, due);
        match due {
            Secret::Nothing => {}
            Secret::Assigned => {
                let value = piece.trim_start_matches(is_assignment);
                if value.len() < piece.len() {
                    if value.is_empty() {
                        self.next = Secret::All;
                        return piece.to_owned();
                    }
                    return piece[..piece.len() - value.len()].to_owned() + MASK;
                }
            }
            Secret::All | Secret::Opaque | Secret::AfterColon => return hide(due, piece),
        }
        let piece = bare(piece);
        if let Some((before, secret, value)) = assignment(&piece) {
            return before.to_owned() + &hide(secret, value);
        }
        if let Some(short) = self.short(&piece)
            && let Some(value) = piece.get(2..).filter(|value| !value.is_empty())
        {
            let secret = if short.is_user { Secret::AfterColon } else { Secret::All };
            return piece[..2].to_owned() + &hide(secret, value);
        }
        piece
    }

    /// What this says about the next word.
    fn heed(&mut self, piece: &str, due: Secret) {
        let name = piece.rsplit('/').next().unwrap_or(piece);
        if let Some(short) = SHORT.iter().find(|short| name.starts_with(short.program)) {
            self.program = Some(short.program);
        }
        self.next = self.follows(piece, due);
    }

    fn follows(&self, piece: &str, due: Secret) -> Secret {
        let scheme = piece.to_ascii_lowercase();
        if scheme == "bearer" || (due == Secret::All && SCHEMES.contains(&scheme.as_str())) {
            return Secret::All;
        }
        if let Some(before) = piece.strip_suffix(is_assignment) {
            return of_name(name_at_end(before));
        }
        if let Some(short) = self.short(piece).filter(|short| piece.len() == 2 && short.takes_next) {
            return if short.is_user { Secret::AfterColon } else { Secret::All };
        }
        if piece.starts_with('-') && !piece.contains(is_assignment) {
            return of_name(piece);
        }
        if !piece.contains(is_assignment) && of_name(name_at_end(piece)) == Secret::All {
            return Secret::Assigned;
        }
        Secret::Nothing
    }

    /// The entry of the table that this is a short option of.
    fn short(&self, piece: &str) -> Option<&'static Short> {
        let mut characters = piece.chars();
        let (dash, option) = (characters.next()?, characters.next()?);
        let program = self.program.filter(|_| dash == '-')?;
        SHORT.iter().find(|short| short.program == program && short.option == option)
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

fn is_of_name(c: char) -> bool {
    #[cfg(test)]
    tests::step();
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// `--NAME=value`, `NAME=value` or `Name: value` from the word's begin, of a secret name. The value is all
/// that follows.
fn whole_assignment(word: &str) -> Option<(&str, Secret, &str)> {
    let at = word.find(is_assignment)?;
    let (name, value) = (&word[..at], &word[at + 1..]);
    let secret = if name.chars().all(is_of_name) { of_name(name) } else { Secret::Nothing };
    (secret == Secret::All && !value.is_empty()).then_some((&word[..=at], secret, value))
}

/// The first assignment to a secret name somewhere in a piece: `?token=abc`, `f(password=x)`.
fn assignment(piece: &str) -> Option<(&str, Secret, &str)> {
    piece.match_indices(is_assignment).find_map(|(at, _)| {
        let secret = of_name(name_at_end(&piece[..at]));
        // `host:port`, `user:password` and clock times have colons, too.
        let secret =
            if piece[at..].starts_with(':') && secret != Secret::All { Secret::Nothing } else { secret };
        // Before the value is looked for: a row of equals signs would take its square of steps.
        if secret == Secret::Nothing {
            return None;
        }
        let value = piece[at + 1..].trim_start_matches(is_assignment);
        let before = &piece[..piece.len() - value.len()];
        let is_scheme = value.starts_with("//");
        (!value.is_empty() && !is_scheme).then_some((before, secret, value))
    })
}

/// The name that a text ends with.
fn name_at_end(text: &str) -> &str {
    let from = text
        .rfind(|c: char| !is_of_name(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[from..]
}

/// How secret what belongs to this name is.
fn of_name(name: &str) -> Secret {
    let parts = parts(name);
    let Some(last) = parts.last().map(String::as_str) else { return Secret::Nothing };
    if NO_VALUES.contains(&last) {
        return Secret::Nothing;
    }
    let is_before = |at: usize, words: &[&str]| at > 0 && words.contains(&parts[at - 1].as_str());
    let is_secret = parts.iter().enumerate().any(|(at, part)| match part.as_str() {
        "token" => !is_before(at, &MODEL_TOKENS),
        "key" | "keys" => is_before(at, &KEYS),
        "string" => is_before(at, &["connection"]),
        part => ENDS.iter().any(|end| part.ends_with(end)),
    });
    if is_secret || LAST.contains(&last) {
        return Secret::All;
    }
    match last {
        "key" if parts.len() == 1 => Secret::Opaque,
        last if USERS.contains(&last) => Secret::AfterColon,
        _ => Secret::Nothing,
    }
}

/// Lower-case parts of `db-password`, `DB_PASSWORD` and `dbPassword`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (was_lower && c.is_uppercase()) {
            parts.push(String::new());
        }
        was_lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn hide(secret: Secret, value: &str) -> String {
    match secret {
        Secret::Nothing | Secret::Assigned => bare(value),
        Secret::Opaque if value.contains(['/', '.']) || value.parse::<u32>().is_ok() => bare(value),
        Secret::All | Secret::Opaque => MASK.to_owned(),
        Secret::AfterColon => match value.split_once(':') {
            // `--user 1000:1000` is no password.
            Some((user, word)) if !(is_number(user) && is_number(word)) => format!("{}:{MASK}", bare(user)),
            _ => bare(value),
        },
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What has no secret name: URLs with passwords and well-known tokens are masked in it.
fn bare(text: &str) -> String {
    without_shapes(&without_passwords(text))
}

/// Signs that may stand before a further URL of a word. One behind any other sign is taken for a part of a password.
const BETWEEN_URLS: &str = ",;|/=?&()<>[]{}\"' \t\n";

/// Each URL of a text by itself.
fn without_passwords(text: &str) -> String {
    let (mut out, mut rest, mut from) = (String::with_capacity(text.len()), text, 0);
    while let Some(at) = rest[from..].find("://").map(|at| from + at) {
        let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let scheme = rest[from..at].rfind(|c| !is_of_scheme(c)).map(|sign| from + sign);
        let sign = scheme.and_then(|sign| Some((sign, rest[sign..].chars().next()?)));
        match sign.filter(|(_, sign)| BETWEEN_URLS.contains(*sign)) {
            Some((sign, character)) if sign > 0 => {
                let end = sign + character.len_utf8();
                out.push_str(&without_password(&rest[..end]));
                rest = &rest[end..];
                from = at + 3 - end;
            }
            _ => from = at + 3,
        }
    }
    out + &without_password(rest)
}

/// `scheme://user:password@host`. The password ends at the last `@`, since people forget to encode theirs.
fn without_password(text: &str) -> String {
    let Some(at) = text.find("://") else { return text.to_owned() };
    let (scheme, rest) = text.split_at(at + 3);
    let whole = rest.rfind('@').and_then(|host| Some((rest[..host].find(':')?, host)));
    let Some((colon, host)) = whole else { return text.to_owned() };
    let port = rest[colon + 1..].find(|c: char| !c.is_ascii_digit()).map(|end| &rest[colon + 1 + end..]);
    // `host:80/path@v1`
    if rest[..colon].contains('/') || port.is_some_and(|after| after.starts_with('/')) {
        return text.to_owned();
    }
    format!("{scheme}{}:{MASK}{}", &rest[..colon], &rest[host..])
}

/// Tokens that are known by how they begin.
fn without_shapes(text: &str) -> String {
    let (mut out, mut rest, mut at_begin) = (String::with_capacity(text.len()), text, true);
    // Bytes up to the end of the name. They are counted once, or a long name would take its square of steps.
    let mut run = 0;
    while let Some(c) = rest.chars().next() {
        if run == 0 {
            run = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        }
        let is_token =
            |&(begin, least): &(&str, usize)| rest.starts_with(begin) && run >= begin.len() + least;
        if at_begin && SHAPES.iter().any(is_token) {
            out.push_str(MASK);
            rest = &rest[run..];
            run = 0;
            continue;
        }
        out.push(c);
        // `_` and `-` are inside tokens, and before them: `key-hf_...`.
        at_begin = !c.is_alphanumeric();
        rest = &rest[c.len_utf8()..];
        run = run.saturating_sub(c.len_utf8());
    }
    out
}
