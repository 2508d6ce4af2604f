//! Text with a limit, for what is made of untrusted input and may be far longer than that: a name of C++
//! whose types repeat each other grows with the power of its length.

use std::fmt;

/// Collects text, and fails once there is too much.
#[derive(Debug)]
pub struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    /// At most so many bytes.
    pub fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }

    /// The text so far.
    pub fn into_text(self) -> String {
        self.text
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let left = self.most.saturating_sub(self.text.len());
        self.text.push_str(&more[..more.floor_char_boundary(left)]);
        if more.len() > left { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::Bounded;

    #[test]
    fn text_ends_at_its_limit() {
        let mut text = Bounded::new(5);
        assert!(text.write_str("abc").is_ok() && text.write_str("\u{e4}\u{e4}").is_err());
        assert!(text.write_str("x").is_err() || text.into_text().len() <= 5);
        let mut whole = Bounded::new(5);
        assert!(whole.write_str("abcde").is_ok());
        assert_eq!(whole.into_text(), "abcde");
    }
}
