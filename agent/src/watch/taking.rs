//! Says when a receiver of spans or metrics stops taking them, and when it takes them again.

use crate::{out, untrusted::Untrusted};

/// The state of one receiver.
#[derive(Debug)]
pub(super) struct Taking {
    what: &'static str,
    /// What was said when it stopped.
    told: Option<String>,
    /// How many were lost so far.
    lost: u64,
    has_refused: bool,
}

impl Taking {
    /// `what` in the plural, as in "spans are not taken".
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, told: None, lost: 0, has_refused: false }
    }

    /// Says what has changed, given the error if there is one now. `last_error` gets that text, and loses it
    /// when they are taken again.
    pub(super) fn tell(&mut self, error: Option<&str>, last_error: &mut String) {
        let what = self.what;
        match (error, &self.told) {
            (Some(error), None) => {
                let told = format!("{what} are not taken: {}", Untrusted::from(error));
                out::say(&format!("warning: {told}\n"));
                last_error.clone_from(&told);
                self.told = Some(told);
            }
            (None, Some(told)) => {
                out::say(&format!("{what} are taken again\n"));
                if last_error == told {
                    last_error.clear();
                }
                self.told = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Says when the receiver, which can be reached, refuses some for the first time: `lost` are lost so far.
    pub(super) fn tell_refused(&mut self, lost: u64, error: Option<&str>, last_error: &mut String) {
        let before = std::mem::replace(&mut self.lost, lost);
        let Some(error) = error.filter(|_| lost > before && self.told.is_none()) else { return };
        *last_error = format!("{} were refused: {}", self.what, Untrusted::from(error));
        if !self.has_refused {
            out::say(&format!("warning: {last_error}\n"));
        }
        self.has_refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_over_is_the_last_one_no_longer() {
        let (mut taking, mut last) = (Taking::new("spans"), String::new());
        taking.tell(Some("nobody listens"), &mut last);
        assert_eq!(last, "spans are not taken: nobody listens");
        taking.tell(Some("another reason"), &mut last);
        assert_eq!(last, "spans are not taken: nobody listens");
        taking.tell(None, &mut last);
        assert_eq!(last, "");
        // What else went wrong meanwhile stays.
        taking.tell(Some("nobody listens"), &mut last);
        "no room on the disk".clone_into(&mut last);
        taking.tell(None, &mut last);
        assert_eq!(last, "no room on the disk");
    }

    #[test]
    fn what_a_receiver_refuses_is_told() {
        let (mut taking, mut last) = (Taking::new("spans"), String::new());
        taking.tell_refused(0, None, &mut last);
        assert_eq!(last, "");
        taking.tell_refused(3, Some("HTTP 400"), &mut last);
        assert_eq!(last, "spans were refused: HTTP 400");
        last.clear();
        taking.tell_refused(3, Some("HTTP 400"), &mut last);
        assert_eq!(last, "");
        // What is lost while it is away was not refused.
        taking.tell(Some("nobody listens"), &mut last);
        taking.tell_refused(5, Some("HTTP 400"), &mut last);
        assert_eq!(last, "spans are not taken: nobody listens");
    }
}
