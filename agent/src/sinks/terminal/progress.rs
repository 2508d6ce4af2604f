//! One line on stderr while the program runs: requests, rate, time, losses. The total is unknown, as it usually is.
//!
//! Draws only on a terminal that can take a line back. It has no thread of its own: whoever owns the run updates it,
//! a few times a second.

use std::fmt::Write as _;

use indicatif::{ProgressBar, ProgressStyle};

use crate::analyze::LiveProgress;

use super::{
    health_lines::duration_of,
    style::can_redraw,
    units::{counted, rate, thousands},
};

/// The line.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Begins the line; on anything but a terminal, or if it is not wanted, nothing is ever drawn.
    pub fn start(is_wanted: bool) -> Self {
        let bar = (is_wanted && can_redraw()).then(|| {
            let bar = ProgressBar::new_spinner();
            // A spinner's own template would fail only for an unknown key, and `msg` is known.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self(bar)
    }

    /// Draws where the run stands. `lost` is everything that was lost so far.
    pub fn update(&self, progress: &LiveProgress, lost: u64) {
        if let Some(bar) = &self.0 {
            // Draws by itself, at most 20 times a second.
            bar.set_message(line(progress, &duration_of(bar.elapsed()), lost));
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// `1,234 requests  16.1/s  12.4 s`.
pub(super) fn line(progress: &LiveProgress, elapsed: &str, lost: u64) -> String {
    let LiveProgress { requests, warmups, rate_per_s } = *progress;
    let mut text = format!("  {}", counted(requests, "request", "requests"));
    if warmups > 0 {
        let _ = write!(text, " after {}", counted(warmups, "warm-up", "warm-ups"));
    }
    if requests > 1 {
        let _ = write!(text, "  {}", rate(rate_per_s));
    }
    let _ = write!(text, "  {elapsed}");
    if lost > 0 {
        let _ = write!(text, "  {} lost", thousands(lost));
    }
    text
}
