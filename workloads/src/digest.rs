//! A 64-bit FNV-1a hash of a workload's definition and of its output, so that two runs can be told apart.
//! Yields the same value on every machine for the same bytes. It is no protection against forgery.
//!
//! Parameters of FNV-1a: <https://www.ietf.org/archive/id/draft-eastlake-fnv-17.html>, section 5.

use std::fmt;

use serde::{Serialize, Serializer};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A running hash. Its text is 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Digest {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Hashes the bits, not the number: `0.0` and `-0.0` differ, and so do two kinds of NaN.
    pub fn f32(&mut self, value: f32) -> &mut Self {
        self.bytes(&value.to_bits().to_le_bytes())
    }

    /// Hashes the length first, so that `("ab", "c")` and `("a", "bc")` differ.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Digest;

    /// Test vectors of the draft's appendix C.
    #[rstest]
    #[case("", "cbf29ce484222325")]
    #[case("a", "af63dc4c8601ec8c")]
    #[case("foobar", "85944171f73967e8")]
    fn agrees_with_the_published_vectors(#[case] text: &str, #[case] expected: &str) {
        let mut digest = Digest::default();
        digest.bytes(text.as_bytes());
        assert_eq!(digest.to_string(), expected);
    }

    #[test]
    fn tells_where_one_text_ends_and_the_next_begins() {
        let (mut one, mut other) = (Digest::default(), Digest::default());
        one.text("ab").text("c");
        other.text("a").text("bc");
        assert_ne!(one, other);
    }
}
