//! How long those who offer may wait for room: a stuck disk must not stop them for good. Pure.
//!
//! The thread that offers writes the run folder as well, and what it has to write meanwhile waits in a
//! channel that holds 3 s of a busy program (`session::outlet`). Waiting is paid out of a store of seconds,
//! which fills again at half the speed of the clock: so no more than half of the time is spent on it.

use std::time::{Duration, Instant};

/// The store fills at one part of so many of the clock's speed.
const PART: u32 = 2;

/// The store.
#[derive(Debug)]
pub(super) struct Patience {
    /// When it is full.
    most: Duration,
    left: Duration,
    /// When it was counted.
    at: Option<Instant>,
}

impl Patience {
    /// Full.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, left: most, at: None }
    }

    /// How long one may wait now.
    pub(super) fn left(&mut self, now: Instant) -> Duration {
        let since = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.left = (self.left + since / PART).min(self.most);
        self.at = Some(now);
        self.left
    }

    /// One did, from then to then.
    pub(super) fn spend(&mut self, begun: Instant, ended: Instant) {
        self.left = self.left.saturating_sub(ended.saturating_duration_since(begun));
        self.at = Some(ended);
    }
}
