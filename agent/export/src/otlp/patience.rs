//! How long offering may wait for room: a stuck disk must not stop it for good. Pure.
//!
//! The offering thread writes the run folder as well; meanwhile its input waits in a channel that holds 3 s
//! of a busy program (`session::export_thread`). Waiting draws on a budget of seconds that refills at half
//! the speed of the clock, so it takes at most half of the time.

use std::time::{Duration, Instant};

/// The budget refills at 1 / `PART` of the clock's speed.
const PART: u32 = 2;

/// The budget.
#[derive(Debug)]
pub(super) struct Patience {
    /// Full budget.
    most: Duration,
    left: Duration,
    /// Time of the last update.
    at: Option<Instant>,
}

impl Patience {
    /// A full budget.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, left: most, at: None }
    }

    /// Time that may be waited now.
    pub(super) fn left(&mut self, now: Instant) -> Duration {
        let since = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.left = (self.left + since / PART).min(self.most);
        self.at = Some(now);
        self.left
    }

    /// Subtracts a wait.
    pub(super) fn spend(&mut self, begun: Instant, ended: Instant) {
        self.left = self.left.saturating_sub(ended.saturating_duration_since(begun));
        self.at = Some(ended);
    }
}
