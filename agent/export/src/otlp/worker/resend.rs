//! How fast spans from the file follow each other.

use std::time::Duration;

/// Time within which everything in the file is to be sent, however much it is.
const CATCH_UP: Duration = Duration::from_mins(5);

/// Pause after `spans` spans of a file in which `waiting` more wait: the least rate, or what catching up
/// takes.
pub(in super::super) fn resend_pause(spans: u64, waiting: u64, least_per_s: u32) -> Duration {
    let rate = (waiting / CATCH_UP.as_secs()).max(u64::from(least_per_s)).max(1);
    Duration::from_secs_f64(spans as f64 / rate as f64)
}
