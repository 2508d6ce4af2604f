//! The text of an error for people: one line that says what, and a hint that says what to do next.

use std::error::Error;

use crate::untrusted::plain;

/// An error that knows what to do about it. Its `Display` gives `what: value`, its causes included.
pub trait Hint: Error {
    /// The next action, for a person; none where nothing helps.
    fn hint(&self) -> Option<String>;
}

/// Text of the form `error: what: value`, a blank line, `hint: next action`. An error may quote a file or a
/// log, whose lines must not replace the error's own: each part is on one line.
pub fn told(error: &(impl Hint + ?Sized)) -> String {
    let text = error.to_string();
    let what = plain(text.trim());
    match error.hint() {
        Some(hint) => format!("error: {what}\n\nhint: {}\n", plain(&hint)),
        None => format!("error: {what}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Hint, told};

    #[derive(Debug, thiserror::Error)]
    #[error("damaged file: {0}")]
    struct Damaged(&'static str, Option<&'static str>);

    impl Hint for Damaged {
        fn hint(&self) -> Option<String> {
            self.1.map(str::to_owned)
        }
    }

    #[test]
    fn what_then_what_to_do() {
        assert_eq!(told(&Damaged("a", None)), "error: damaged file: a\n");
        assert_eq!(told(&Damaged("a", Some("copy it"))), "error: damaged file: a\n\nhint: copy it\n");
    }

    #[test]
    fn a_quoted_file_replaces_none_of_the_lines() {
        let forged = Damaged("x\nFORGED: all is well\n", Some("copy\nit"));
        assert_eq!(told(&forged), "error: damaged file: x FORGED: all is well\n\nhint: copy it\n");
    }
}
