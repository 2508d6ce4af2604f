//! Patterns of thread names: numbers become `*`, so that `worker-1` and `worker-2` form one group.
//!
//! Works on text only.

use crate::untrusted::Untrusted;

/// Names are 15 bytes as the kernel keeps them; a folder may hold longer ones.
const LONGEST: usize = 64;
/// Shortest word of hexadecimal digits that counts as a number: `a3f9` does, `e2e` does not.
const HEXADECIMAL: usize = 4;

/// The name with `*` for each number, decimal or hexadecimal.
pub(super) fn pattern(name: &Untrusted) -> String {
    let name: String = name.stored().chars().take(LONGEST).collect();
    let mut pattern = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while !rest.is_empty() {
        let is_word = rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        let end = rest.find(|c: char| c.is_ascii_alphanumeric() != is_word).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        match part {
            _ if !is_word => pattern.push_str(part),
            _ if is_hexadecimal(part) => pattern.push('*'),
            _ => push_without_digits(&mut pattern, part),
        }
        rest = after;
    }
    pattern
}

/// A word that is a number to the base of 16: with a digit, or any word of letters up to `f` would be one.
fn is_hexadecimal(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_long = digits.len() >= HEXADECIMAL || digits.len() < word.len();
    is_long
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

fn push_without_digits(pattern: &mut String, word: &str) {
    for c in word.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !pattern.ends_with('*') {
            pattern.push('*');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("uvicorn", "uvicorn")]
    #[case::behind_a_sign("worker-17", "worker-*")]
    #[case::leading_zeros("grpc_001", "grpc_*")]
    #[case::behind_letters("worker17", "worker*")]
    #[case::two("pool-1-thread-3", "pool-*-thread-*")]
    #[case::within_a_word("h2o3ml", "h*o*ml")]
    #[case::hexadecimal("conn a3f9c2", "conn *")]
    #[case::with_a_prefix("0x7f", "*")]
    #[case::short_word("e2e", "e*e")]
    #[case::letters_alone("cafe babe", "cafe babe")]
    #[case::sign_of_java("GC Thread#0", "GC Thread#*")]
    #[case::empty("", "")]
    #[case::not_ascii("wörk\u{1b}[2J9", "wörk\u{1b}[*J*")]
    fn numbers_in_names_become_a_sign(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(pattern(&name.into()), expected);
    }

    proptest! {
        #[test]
        fn a_pattern_has_no_digit_and_is_bounded_whatever_the_name(name in any::<String>()) {
            let pattern = pattern(&name.into());
            prop_assert!(!pattern.contains(|c: char| c.is_ascii_digit()));
            prop_assert!(pattern.chars().count() <= LONGEST);
        }

        #[test]
        fn names_that_differ_in_a_number_alone_have_one_pattern(
            begin in "[a-z_-]{0,8}-", one in 0..999_u32, other in 0..999_u32
        ) {
            let of = |number: u32| pattern(&format!("{begin}{number}").into());
            prop_assert_eq!(of(one), of(other));
        }
    }
}
