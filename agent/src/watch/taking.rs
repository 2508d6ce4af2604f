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
    /// What was last said of those.
    why_lost: String,
}

impl Taking {
    /// `what` in the plural, as in "spans are not taken".
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, told: None, lost: 0, why_lost: String::new() }
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

    /// Says when some are lost although the receiver can be reached, as when it refuses them: once, and again
    /// when the reason changes. `lost`: how many so far.
    pub(super) fn tell_lost(&mut self, lost: u64, error: Option<&str>, last_error: &mut String) {
        let before = std::mem::replace(&mut self.lost, lost);
        let Some(error) = error.filter(|_| lost > before && self.told.is_none()) else { return };
        let told = format!("{} are lost: {}", self.what, Untrusted::from(error));
        if self.why_lost != told {
            out::say(&format!("warning: {told}\n"));
            last_error.clone_from(&told);
            self.why_lost = told;
        }
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
    fn what_is_lost_with_the_receiver_there_is_told() {
        let (mut taking, mut last) = (Taking::new("spans"), String::new());
        taking.tell_lost(0, None, &mut last);
        assert_eq!(last, "");
        taking.tell_lost(3, Some("HTTP 400"), &mut last);
        assert_eq!(last, "spans are lost: HTTP 400");
        last.clear();
        taking.tell_lost(3, Some("HTTP 400"), &mut last);
        assert_eq!(last, "");
        // While it is away, that is the reason.
        taking.tell(Some("nobody listens"), &mut last);
        taking.tell_lost(5, Some("HTTP 400"), &mut last);
        assert_eq!(last, "spans are not taken: nobody listens");
    }
}
