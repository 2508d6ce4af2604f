//! Takes secrets that were sent to a collector out of its answers: it may repeat them, in the forms that
//! servers know.
//!
//! Yields text without them. A collector could repeat a secret in any cipher; this covers what people may
//! read by accident.

use std::{cmp::Reverse, collections::BTreeMap};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD},
};
use http::header::AUTHORIZATION;

/// Stands for a secret.
const HIDDEN: &str = "***";
/// Shorter secrets are taken out only as whole words.
const SHORT: usize = 4;

/// The text without the values of these headers, without what they were made of, and without either in
/// another form.
pub(super) fn hide(text: &str, headers: &BTreeMap<String, String>) -> String {
    let mut secrets: Vec<String> = headers.iter().flat_map(|(name, value)| secrets(name, value)).collect();
    let forms: Vec<String> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    secrets.extend(forms);
    // One secret may be part of another.
    secrets.sort_by_key(|secret| (Reverse(secret.len()), secret.clone()));
    secrets.dedup();
    secrets.iter().fold(text.to_owned(), |text, secret| without(&text, secret))
}

/// A header's value, its words after the scheme, and the user and password that such a word encodes.
fn secrets(name: &str, value: &str) -> Vec<String> {
    let is_authorization = name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
    let scheme = usize::from(value.trim().contains(char::is_whitespace));
    let words: Vec<&str> = value.split_whitespace().skip(scheme).collect();
    let mut secrets: Vec<String> = vec![value.to_owned()];
    for word in words {
        secrets.push(word.to_owned());
        let Some(credentials) = decoded(word) else { continue };
        if let Some((user, password)) = credentials.split_once(':') {
            secrets.extend([user, password].map(str::to_owned));
        }
        secrets.push(credentials);
    }
    secrets.retain(|secret| !secret.is_empty() && (is_authorization || secret.chars().count() >= SHORT));
    secrets
}

fn decoded(word: &str) -> Option<String> {
    let bytes = [BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD]
        .iter()
        .find_map(|engine| engine.decode(word).ok())?;
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// Forms of the secret in URLs, headers and dumps.
fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let in_url =
        |byte: &u8| if is_plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    vec![
        bytes.iter().map(in_url).collect(),
        hexadecimal(bytes, ""),
        hexadecimal(bytes, "%"),
        BASE64_STANDARD.encode(bytes),
        BASE64_STANDARD_NO_PAD.encode(bytes),
        BASE64_URL_SAFE_NO_PAD.encode(bytes),
    ]
}

fn hexadecimal(bytes: &[u8], before_each: &str) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{before_each}{byte:02x}"))
}

/// The text without this secret, in either case.
fn without(text: &str, secret: &str) -> String {
    // Lower-casing ASCII keeps all byte offsets.
    let (within, wanted) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let is_short = secret.chars().count() < SHORT;
    let mut left = String::with_capacity(text.len());
    let mut from = 0;
    for (at, found) in within.match_indices(&wanted) {
        let end = at + found.len();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_part = is_word(text[..at].chars().next_back()) || is_word(text[end..].chars().next());
        if !(is_short && is_part) {
            left.push_str(&text[from..at]);
            left.push_str(HIDDEN);
            from = end;
        }
    }
    left.push_str(&text[from..]);
    left
}
