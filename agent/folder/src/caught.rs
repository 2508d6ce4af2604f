//! Calls of libraries that may panic on a malformed file in unforeseen ways.
//!
//! Such a panic is a finding about the file: the library's message is not printed.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    /// This thread is within such a call.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Result of the call; none if it panicked. The value that it worked on must not be used again then.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_WITHIN.get() {
                usual(info);
            }
        }));
    });
    let was_within = IS_WITHIN.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    IS_WITHIN.set(was_within);
    outcome.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_within_is_an_answer_and_one_outside_is_a_panic() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| -> u8 { panic!("of a library") }), None);
        assert!(!IS_WITHIN.get(), "others are told");
    }
}
