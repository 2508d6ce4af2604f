//! Says when a receiver of spans or metrics stops taking them, and when it takes them again.

use crate::{out, untrusted::Untrusted};

/// The state of one receiver.
#[derive(Debug)]
pub(super) struct Taking {
    what: &'static str,
    fails: bool,
}

impl Taking {
    /// `what` in the plural, as in "spans are not taken".
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, fails: false }
    }

    /// Says what has changed, given the error if there is one now. Returns that text if it is an error.
    pub(super) fn tell(&mut self, error: Option<&str>) -> Option<String> {
        let what = self.what;
        let told = error.map(|error| format!("{what} are not taken: {}", Untrusted::from(error)));
        match (&told, self.fails) {
            (Some(told), false) => out::say(&format!("warning: {told}\n")),
            (None, true) => out::say(&format!("{what} are taken again\n")),
            (Some(_), true) | (None, false) => {}
        }
        self.fails = told.is_some();
        told
    }
}
