//! Reads the paths that Rust source names, `use` trees and plain paths alike, without a compiler.
//!
//! Yields each path with its line: `use std::{fs, io::Read}` gives `std::fs` and `std::io::Read`. Comments,
//! strings and characters are no code. It resolves nothing: an alias or a macro that makes a path stays
//! unseen.

/// A path as it stands in the source, with the number of its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedPath {
    pub(super) line: usize,
    pub(super) text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sep,
    Open,
    Close,
    Other,
}

/// Every path of two segments or more.
pub(super) fn paths(source: &str) -> Vec<NamedPath> {
    let tokens = tokens(&code(source));
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            (line, Token::Word(word)) if tokens.get(at + 1).is_some_and(|t| t.1 == Token::Sep) => {
                let (line, word) = (*line, word.clone());
                at = tree(&tokens, at + 1, line, word, &mut out);
            }
            _ => at += 1,
        }
    }
    out
}

/// Reads on from the `::` at `at`, with what stands before it; gives the place after the path.
fn tree(
    tokens: &[(usize, Token)],
    mut at: usize,
    line: usize,
    mut path: String,
    out: &mut Vec<NamedPath>,
) -> usize {
    while tokens.get(at).is_some_and(|t| t.1 == Token::Sep) {
        match tokens.get(at + 1) {
            Some((_, Token::Word(word))) => {
                path = format!("{path}::{word}");
                at += 2;
            }
            Some((_, Token::Open)) => return group(tokens, at + 2, &path, out),
            _ => {
                at += 1;
                break;
            }
        }
    }
    out.push(NamedPath { line, text: path });
    at
}

/// Reads the members of `{...}`; gives the place after the closing brace.
fn group(tokens: &[(usize, Token)], mut at: usize, path: &str, out: &mut Vec<NamedPath>) -> usize {
    while let Some((line, token)) = tokens.get(at) {
        match token {
            Token::Close => return at + 1,
            // `as` and the other name, which is this file's own business.
            Token::Word(word) if word == "as" => at += 2,
            Token::Word(word) => at = tree(tokens, at + 1, *line, format!("{path}::{word}"), out),
            Token::Open => at = group(tokens, at + 1, path, out),
            Token::Sep | Token::Other => at += 1,
        }
    }
    at
}

fn tokens(code: &str) -> Vec<(usize, Token)> {
    let mut out = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (token, length) = match first {
                _ if word > 0 => (Token::Word(rest[..word].to_owned()), word),
                ':' if rest.starts_with("::") => (Token::Sep, 2),
                '{' => (Token::Open, 1),
                '}' => (Token::Close, 1),
                _ => (Token::Other, first.len_utf8()),
            };
            if !first.is_whitespace() {
                out.push((number + 1, token));
            }
            rest = &rest[length..];
        }
    }
    out
}

/// The source with comments, strings and characters blanked, line by line as before.
pub(super) fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = blank_length(rest);
        if length > 0 {
            out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            // The `r` of `for"` is no raw string's, and the quote of `b'a'` still is a character's.
            if first.is_alphanumeric() || first == '_' {
                let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                out.push_str(&rest[..word]);
                rest = &rest[word..];
            }
        }
    }
    out
}

/// How many bytes at the start are a comment, a string or a character.
fn blank_length(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    let unprefixed = rest.strip_prefix('b').unwrap_or(rest);
    let prefix = rest.len() - unprefixed.len();
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = &raw[hashes + 1..];
            return body.find(&end).map_or(rest.len(), |at| prefix + 1 + hashes + 1 + at + end.len());
        }
    }
    match unprefixed.chars().next() {
        Some('"') => prefix + quoted_length(unprefixed, '"'),
        Some('\'') if is_character(unprefixed) => prefix + quoted_length(unprefixed, '\''),
        _ => 0,
    }
}

/// Whether a quote opens a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{code, paths};

    #[rstest]
    #[case::plain("use crate::phase::Phase;", &["1 crate::phase::Phase"])]
    #[case::tree("use crate::{\n    run,\n    phase::{self, Phase as P},\n};",
        &["2 crate::run", "3 crate::phase::self", "3 crate::phase::Phase"])]
    #[case::inline("let t = std::time::Instant::now();", &["1 std::time::Instant::now"])]
    #[case::glob("use super::*;", &["1 super"])]
    #[case::turbofish("Vec::<std::fs::File>::new()", &["1 Vec", "1 std::fs::File"])]
    #[case::nested("use a::{b::{c, d::e}, f};", &["1 a::b::c", "1 a::b::d::e", "1 a::f"])]
    #[case::match_arm("match x { A::B => { c::d() } }", &["1 A::B", "1 c::d"])]
    #[case::comment("// crate::run\n/* crate::a /* crate::b */ crate::c */ crate::d::e", &["2 crate::d::e"])]
    #[case::string(r##"f("crate::x\"::y", r#"crate::"z"#, b"crate::q", a::b)"##, &["1 a::b"])]
    #[case::character("f('\"', '\\'', b'x', a::b, 'l: loop {})", &["1 a::b"])]
    #[case::lifetime("fn f<'a>(x: &'a str) -> crate::X<'a>", &["1 crate::X"])]
    #[case::word_before_a_string("for\"crate::a\" in b::c", &["1 b::c"])]
    fn every_path_is_found_with_its_line(#[case] source: &str, #[case] expected: &[&str]) {
        let found: Vec<_> = paths(source).iter().map(|p| format!("{} {}", p.line, p.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blanking_keeps_lines() {
        assert_eq!(
            code("a\n\"x\ny\" b // c\nd").lines().map(str::trim).collect::<Vec<_>>(),
            ["a", "", "b", "d"]
        );
    }
}
