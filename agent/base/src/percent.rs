//! Percent-escapes of URLs, both ways. Yields text for a query, and the bytes that an escaped text stands
//! for.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All but letters, digits and what RFC 3986 leaves as it is everywhere.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text as a value in a URL's query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The bytes that a text with escapes stands for. A per cent sign without two hexadecimal digits stays.
pub fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The same as text; none if it is no UTF-8.
pub fn decoded_text(text: &str) -> Option<String> {
    String::from_utf8(decoded(text)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", "")]
    #[case::unreserved("aZ09-._~", "aZ09-._~")]
    #[case::reserved("a b&c=d/e?f#g+h%i", "a%20b%26c%3Dd%2Fe%3Ff%23g%2Bh%25i")]
    #[case::wide("ü\u{1f600}", "%C3%BC%F0%9F%98%80")]
    #[case::control("\0\n\u{7f}", "%00%0A%7F")]
    fn a_value_of_a_query_is_encoded(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(encoded(text), expected);
    }

    #[rstest]
    #[case::both_cases("%2f%2F", b"//")]
    #[case::no_text("%ff%00", &[0xff, 0])]
    #[case::cut_off("a%2", b"a%2")]
    #[case::alone("50%", b"50%")]
    #[case::no_digits("%zz%2z%", b"%zz%2z%")]
    #[case::a_sign_is_no_digit("%+f%-1", b"%+f%-1")]
    #[case::once("%2541", b"%41")]
    #[case::plus_is_plus("a+b", b"a+b")]
    #[case::wide("%ü", "%ü".as_bytes())]
    fn a_broken_escape_stays(#[case] text: &str, #[case] expected: &[u8]) {
        assert_eq!(decoded(text), expected);
    }

    #[test]
    fn bytes_that_are_no_text_give_none() {
        assert_eq!(decoded_text("%c3%bc").as_deref(), Some("ü"));
        assert_eq!(decoded_text("%ff"), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(text in "\\PC{0,30}") {
            prop_assert_eq!(decoded_text(&encoded(&text)), Some(text));
        }
    }
}
