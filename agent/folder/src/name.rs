//! Names of folders and files from untrusted words: names of programs, users and scenarios may contain
//! anything.
//!
//! Yields names of `[A-Za-z0-9._-]` that are never empty, hidden or dots only.

use chrono::{DateTime, Utc};

/// Longest foreign word inside a file name, in bytes. Time, scenario and name together stay far below the 255
/// of every file system.
const WORD_BYTES: usize = 64;

/// `text` as a part of a file name: every run of other characters becomes one `-`; at most 64 bytes;
/// `fallback` (which must be such a name) if nothing is left.
pub fn sanitise(text: &str, fallback: &str) -> String {
    let mut word = String::with_capacity(text.len().min(WORD_BYTES));
    for character in text.chars() {
        let kept = character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
        let character = if kept { character } else { '-' };
        if !(character == '-' && word.ends_with('-')) {
            word.push(character);
        }
        if word.len() == WORD_BYTES {
            break;
        }
    }
    // A leading dot hides a file, a leading dash looks like an option.
    match word.trim_start_matches(['.', '-']).trim_end_matches(['.', '-']) {
        "" => fallback.to_owned(),
        word => word.to_owned(),
    }
}

/// `<UTC time>-<scenario>-<name>`. UTC, because folders of many guests are laid side by side and must sort.
pub(super) fn folder_name(start_wall_ns: u64, scenario: &str, name: &str) -> String {
    let time = date(start_wall_ns).format("%Y-%m-%dT%H-%M-%S");
    format!("{time}-{}-{}", sanitise(scenario, "unknown"), sanitise(name, "run"))
}

/// Wall time as RFC 3339, UTC, with nanoseconds.
pub fn rfc3339(wall_ns: u64) -> String {
    date(wall_ns).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
}

fn date(wall_ns: u64) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(i64::try_from(wall_ns).unwrap_or(i64::MAX))
}

/// FNV-1a, 64 bits: the same for ever and everywhere, unlike the standard library's hasher. Tells apart names
/// that [`sanitise`] makes equal.
pub(super) fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("infer-ic", "infer-ic")]
    #[case::path("../../etc/passwd", "etc-passwd")]
    #[case::absolute("/usr/bin/python3.11", "usr-bin-python3.11")]
    #[case::dots("..", "run")]
    #[case::hidden(".bashrc", "bashrc")]
    #[case::empty("", "run")]
    #[case::option("--output", "output")]
    #[case::control("a\n\u{1b}[31mb\0c", "a-31mb-c")]
    #[case::unicode("größe 東京", "gr-e")]
    #[case::spaces("a   b", "a-b")]
    fn words_of_outside(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(sanitise(text, "run"), expected);
    }

    #[test]
    fn a_folder_says_when_where_and_what() {
        let name = folder_name(1_795_249_821_000_000_001, "MVM/2/VNL/CPU", "ic");
        assert_eq!(name, "2026-11-21T08-30-21-MVM-2-VNL-CPU-ic");
        assert_eq!(rfc3339(1_795_249_821_000_000_001), "2026-11-21T08:30:21.000000001Z");
        assert_eq!(folder_name(0, "", "\0"), "1970-01-01T00-00-00-unknown-run");
    }

    proptest! {
        #[test]
        fn any_word_becomes_a_safe_name(text in any::<String>()) {
            let word = sanitise(&text, "run");
            prop_assert!(!word.is_empty() && word.len() <= WORD_BYTES);
            prop_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)));
            prop_assert!(!word.starts_with(['.', '-']) && !word.ends_with(['.', '-']));
            prop_assert_eq!(sanitise(&word, "run"), word);
        }

        #[test]
        fn a_folder_name_fits_every_file_system(wall in any::<u64>(), scenario in any::<String>(), name in any::<String>()) {
            prop_assert!(folder_name(wall, &scenario, &name).len() <= 200);
        }
    }
}
