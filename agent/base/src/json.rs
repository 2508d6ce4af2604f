//! Values as JSON, which people print too: characters that a terminal might obey are written as `\uXXXX`,
//! which means the same.
//!
//! The only place that makes JSON: everything that is written or sent as JSON passes here.

use std::fmt::Write as _;

use serde::Serialize;

use crate::untrusted::is_unsafe;

/// JSON on one line, without a line end.
#[expect(clippy::disallowed_methods, reason = "escaped here")]
pub fn line(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(escaped)
}

/// Indented JSON, with a line end.
#[expect(clippy::disallowed_methods, reason = "escaped here")]
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| escaped(text) + "\n")
}

/// Escapes what a terminal might obey. Such characters occur only inside strings, where the escape means the
/// same. C0 is escaped already.
fn escaped(text: String) -> String {
    let is_meant = |c: char| c != '\n' && is_unsafe(c);
    if text.bytes().all(|byte| byte < 0x7f) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_meant(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_stands_as_numbers() {
        let text = line(&"\u{1b}[2J\u{7f}\u{9b}\u{202e}\u{e0041}\u{e9}").unwrap();
        assert_eq!(text, "\"\\u001b[2J\\u007f\\u009b\\u202e\\udb40\\udc41\u{e9}\"");
    }

    proptest! {
        #[test]
        fn every_value_comes_back_and_none_gives_orders(key in any::<String>(), value in any::<String>()) {
            let given = serde_json::json!({ key: [value] });
            for text in [line(&given).unwrap(), pretty(&given).unwrap()] {
                prop_assert!(!text.chars().any(|c| c != '\n' && is_unsafe(c)));
                prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&text).unwrap(), &given);
            }
        }
    }
}
