//! How secret a value is, by the name of its option, variable or header.

use super::{
    secret::Secret,
    tables::{
        CALLS, ENDS, KEYS, KEYS_OR_PATHS, LAST, MODEL_TOKENS, NO_PASSWORDS, NO_VALUES, TOKEN_COUNTS, USERS,
    },
};

pub(super) fn is_of_name(c: char) -> bool {
    #[cfg(test)]
    super::tests::step();
    // The last ones are invisible, and get copied along from web pages.
    c.is_alphanumeric()
        || matches!(c, '-' | '_' | '.' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// The name at the end of a text.
pub(super) fn name_at_end(text: &str) -> &str {
    let from = text
        .rfind(|c: char| !is_of_name(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[from..]
}

/// Returns how secret the value of this name is.
pub(super) fn of_name(name: &str) -> Secret {
    let parts = parts(name);
    let Some(last) = parts.last() else { return Secret::Nothing };
    if NO_VALUES.contains(&last.as_str()) {
        return Secret::Nothing;
    }
    let secret = parts.iter().enumerate().map(|(at, part)| {
        let before = at.checked_sub(1).map(|at| parts[at].as_str());
        of_part(before.unwrap_or_default(), part)
    });
    let secret = secret.max().unwrap_or_default();
    if secret == Secret::Nothing { of_last(last, parts.len()) } else { secret }
}

/// The same for a function that sets it: for `setPassword`, not for `getPassword`.
pub(super) fn of_call(name: &str) -> Secret {
    let sets = parts(name).iter().any(|part| CALLS.contains(&part.as_str()));
    if sets { of_name(name) } else { Secret::Nothing }
}

/// Returns how secret one part makes a name, at any position.
fn of_part(before: &str, part: &str) -> Secret {
    let one = singular(part);
    if one == "token" && MODEL_TOKENS.contains(&before) {
        return Secret::Nothing;
    }
    if one.ends_with("token") && one != part {
        return if TOKEN_COUNTS.contains(&before) { Secret::Nothing } else { Secret::Count };
    }
    let is_named = |name: &str| ENDS.iter().any(|end| name.ends_with(end));
    if is_named(part) || is_named(one) || ENDS.contains(&format!("{before}{one}").as_str()) {
        return Secret::All;
    }
    if one == "string" && before == "connection" {
        return Secret::All;
    }
    // `HMACKey` is one part.
    let kind = match one.strip_suffix("key") {
        Some("") => before,
        Some(kind) => kind,
        None => return Secret::Nothing,
    };
    match kind {
        kind if KEYS.contains(&kind) => Secret::All,
        kind if KEYS_OR_PATHS.contains(&kind) => Secret::Opaque,
        _ => Secret::Nothing,
    }
}

/// Returns how secret the last part makes a name of `parts` parts.
fn of_last(last: &str, parts: usize) -> Secret {
    let one = singular(last);
    if last == "cookies" {
        // As often it is a file of cookies.
        return Secret::Opaque;
    }
    if LAST.contains(&last) || LAST.contains(&one) {
        return Secret::All;
    }
    if last.ends_with("pass") && !NO_PASSWORDS.contains(&last) {
        return Secret::All;
    }
    match last {
        "pin" => Secret::Pin,
        "key" if parts == 1 => Secret::Opaque,
        last if USERS.contains(&last) => Secret::After(':'),
        _ => Secret::Nothing,
    }
}

fn singular(part: &str) -> &str {
    part.strip_suffix('s').filter(|one| one.len() > 2 && !one.ends_with('s')).unwrap_or(part)
}

/// Lower-case parts of `db-password`, `DB_PASSWORD` and `dbPassword`, without trailing digits as in
/// `password2`.
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
    for part in &mut parts {
        part.truncate(part.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    }
    parts.retain(|part| !part.is_empty());
    parts
}
