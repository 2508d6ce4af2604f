//! Reports that the first step or request begins to a parent process that runs this one beside its own job,
//! so that nothing is measured before both run. Yields one line on standard error, if asked for. It also
//! waits for guestscope, whose probe takes 7 to 25 ms to attach, which the first step would otherwise
//! contain.

use std::sync::Once;

use crate::output::say;

/// Environment variable that asks for the line.
pub const ASKED: &str = "GUESTSCOPE_WORKLOADS_TELL_START";
/// The line.
pub const LINE: &str = "started";

/// Reports that a step or request begins; only the first call counts.
pub fn tell() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Outside all requests this tells guestscope only that the marker is here.
        drop(guestscope_marker::traceparent());
        if std::env::var_os(ASKED).is_some() {
            say(LINE);
        }
    });
}
