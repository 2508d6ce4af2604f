//! Word to whoever started this process beside a job of its own that the first step or request begins, so that nothing is
//! measured before both jobs run. Yields one line on standard error, where that was asked for. And word to guestscope, which
//! this waits for: attaching its probe takes 7 to 25 ms, which the first step would have.

use std::sync::Once;

use crate::output::say;

/// Asks for it, in the environment.
pub const ASKED: &str = "GUESTSCOPE_WORKLOADS_TELL_START";
/// The line.
pub const LINE: &str = "started";

/// A step or request begins; only the first one counts.
pub fn tell() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Outside all requests it says nothing but that the marker is here.
        drop(guestscope_marker::traceparent());
        if std::env::var_os(ASKED).is_some() {
            say(LINE);
        }
    });
}
