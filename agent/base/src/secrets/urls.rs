//! Secrets without a name: in URLs, before hosts, and tokens known by their shape.

use super::{
    names::{is_of_name, name_at_end},
    secret::{MASK, after_slash},
    tables::{HOSTS, NO_HOSTS, NO_USERS, SECRET_PATHS, SHAPES, SLASHED},
};

/// Masks secrets without a name: passwords in URLs, and well-known tokens.
pub(super) fn bare(text: &str) -> String {
    without_shapes(&without_paths(&without_users(&without_passwords(text))))
}

/// Characters that may stand before a further URL of a word. A URL after any other character counts as part
/// of a password.
const BETWEEN_URLS: &str = ",;|/=?&()<>[]{}\"' \t\n";

/// Masks each URL of a text by itself.
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

/// Masks `scheme://user:password@host`. The password ends at the last `@`, since people forget to encode
/// theirs.
fn without_password(text: &str) -> String {
    let Some(at) = text.find("://") else { return text.to_owned() };
    let (scheme, rest) = text.split_at(at + 3);
    let whole = rest.rfind('@').and_then(|host| Some((rest[..host].find(':')?, host)));
    let Some((colon, host)) = whole else { return without_token(scheme, rest) };
    let port = rest[colon + 1..].find(|c: char| !c.is_ascii_digit()).map(|end| &rest[colon + 1 + end..]);
    // `host:80/path@v1`
    if rest[..colon].contains('/') || port.is_some_and(|after| after.starts_with('/')) {
        return without_token(scheme, rest);
    }
    format!("{scheme}{}:{MASK}{}", &rest[..colon], &rest[host..])
}

/// Masks `https://TOKEN@host`, which git hosts accept.
fn without_token(scheme: &str, rest: &str) -> String {
    let user = rest.find(['@', '/', '?', '#']).filter(|&at| rest[at..].starts_with('@'));
    match user {
        Some(at) if is_random(&rest[..at]) => format!("{scheme}{MASK}{}", &rest[at..]),
        _ => format!("{scheme}{rest}"),
    }
}

/// Whether a run of letters and digits is too long for a word.
pub(super) fn is_random(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        run.len() >= 32 || (run.len() >= 16 && digits > 0 && digits < run.len())
    })
}

/// Masks `user:password@host` without a scheme, and `user/password@host` where only that is meant.
fn without_users(text: &str) -> String {
    if let Some((at, before)) = SLASHED.iter().find_map(|before| Some((text.find(before)?, before))) {
        let (before, value) = text.split_at(at + before.len());
        let hidden = after_slash(value).unwrap_or_else(|| bare(value));
        return before.to_owned() + &hidden;
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let behind = text.rfind('@').map_or(text.len(), |at| text.len() - at);
    // Each takes as many steps as there are characters left.
    let mut tries = 8_u32;
    while rest.len() > behind
        && let Some(colon) = colon_of_user(rest)
    {
        let password = &rest[colon + 1..];
        // URLs are masked already.
        let scheme =
            password.find("://").map_or(password.len(), |at| at - name_at_end(&password[..at]).len());
        let end = end_of_password(&rest[..colon], &password[..scheme]);
        out.push_str(&rest[..=colon]);
        if let Some(end) = end {
            out.push_str(MASK);
            rest = &password[end..];
            continue;
        }
        // `/a:/b,user:password@host`
        tries = tries.saturating_sub(1);
        let next = password[..scheme].find([',', ';', '&', '=', '(']).filter(|_| tries > 0);
        let next = next.map_or(scheme, |at| at + 1);
        out.push_str(&password[..next]);
        rest = &password[next..];
    }
    out + rest
}

/// Index of the host, with its `@`: the last one, as in a URL.
fn end_of_password(before: &str, password: &str) -> Option<usize> {
    let user = name_at_end(before);
    let is_url = before[..before.len() - user.len()].ends_with("//");
    let slash = password.find('/').filter(|_| !is_url).unwrap_or(password.len());
    // `10:30@x`, `8080:80@loadbalancer`, `1:2:3@node`
    let number = password.find(|c: char| !c.is_ascii_digit() && !".:-".contains(c)).unwrap_or(0);
    let number = if user.bytes().all(|byte| byte.is_ascii_digit()) && !is_url { number } else { 0 };
    password.rmatch_indices('@').map(|(at, _)| at).find(|&at| match host(&password[at + 1..]) {
        Host::No => false,
        // `host:folder/file@2x`
        Host::Perhaps => at > number && at <= slash,
        Host::Sure => at > number,
    })
}

/// The first colon that may separate a user and a password.
fn colon_of_user(text: &str) -> Option<usize> {
    text.match_indices(':').map(|(at, _)| at).find(|&at| {
        let (user, after) = (name_at_end(&text[..at]), &text[at + 1..]);
        let before = &text[..at - user.len()];
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let is_port = digits > 0 && after[digits..].starts_with('/');
        let is_user = !user.is_empty() || before.ends_with("//");
        is_user
            && !is_port
            && !before.ends_with('@')
            && !after.starts_with("//")
            && !NO_USERS.contains(&user.to_ascii_lowercase().as_str())
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    No,
    Perhaps,
    Sure,
}

/// Whether a text begins with a host.
fn host(text: &str) -> Host {
    let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    if name.is_empty() {
        // An IPv6 address, a variable, or none: Go's drivers take `user:password@/database`.
        return if text.starts_with(['[', '$', '{', '<', '(', '/']) { Host::Perhaps } else { Host::No };
    }
    let first = name.trim_start_matches('v').split('.').next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = name.split('.').count() == 4 && name.split('.').all(is_number);
    let is_version = is_number(first) && !is_address;
    if !name.starts_with(char::is_alphanumeric) || is_version || NO_HOSTS.contains(&name) {
        return Host::No;
    }
    let has_port = after.strip_prefix(':').is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    let is_known = name.rsplit('.').next().is_some_and(|last| HOSTS.contains(&last));
    if has_port || is_address || is_known { Host::Sure } else { Host::Perhaps }
}

/// Masks the path of URLs whose path is a secret, from there to the end.
fn without_paths(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let ends = SECRET_PATHS.iter().filter_map(|path| Some(lower.find(path)? + path.len()));
    match ends.min() {
        Some(end) if end < text.len() => text[..end].to_owned() + MASK,
        _ => text.to_owned(),
    }
}

/// Masks tokens known by how they begin.
fn without_shapes(text: &str) -> String {
    let (mut out, mut rest, mut at_begin) = (String::with_capacity(text.len()), text, true);
    // Bytes up to the end of the name. They are counted once: otherwise the steps would grow with the square
    // of its length.
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
