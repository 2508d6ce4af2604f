//! How much of a value is secret, and what stands in its place.

/// Replacement for a secret.
pub const MASK: &str = "***";

/// The secret part of a value; later variants hide more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Secret {
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

/// Masks `scott/tiger@host`; neither a path nor a script nor an option.
pub(super) fn after_slash(value: &str) -> Option<String> {
    let (user, rest) = value.split_once('/')?;
    let is_url = user.ends_with(':') && rest.starts_with('/');
    let is_meant = !user.is_empty() && !value.starts_with(['.', '@', '-']) && !rest.is_empty() && !is_url;
    let host = rest.rfind('@').map_or("", |at| &rest[at..]);
    is_meant.then(|| format!("{user}/{MASK}{host}"))
}
