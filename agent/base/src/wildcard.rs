//! Patterns with stars, each of which stands for any text: what people write to choose files, programs and
//! names.

/// Whether a text matches the pattern, as a whole.
pub fn matches(pattern: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> bool {
    let (pattern, text) = (pattern.as_ref(), text.as_ref());
    let (mut at, mut from) = (0, 0);
    // Position of the last star, and how far it reaches.
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, reach)) = star else { return false };
                star = Some((place, reach + 1));
                (at, from) = (place + 1, reach + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    #[case("*/python3*", "/usr/bin/python3.11", true)]
    #[case("*/python3*", "/usr/bin/python", false)]
    #[case("a*b*c", "a-b-b-c", true)]
    #[case("a*b*c", "a-c-b", false)]
    #[case("GET /chat", "GET /chat/1", false)]
    fn a_star_stands_for_any_text(#[case] pattern: &str, #[case] text: &str, #[case] fits: bool) {
        assert_eq!(matches(pattern, text), fits);
    }
}
