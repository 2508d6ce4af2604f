//! Turns: a worker that was handed parameters owes a gradient, and one that owes it for too long is late,
//! however often it says that it lives. Yields the rank of a late worker. It asks no clock.

use std::time::{Duration, Instant};

/// Since when each worker owes a gradient.
#[derive(Debug)]
pub struct Turns {
    since: Vec<Option<Instant>>,
    limit: Duration,
}

impl Turns {
    /// No turns yet, for `workers` workers; each turn may take as long as `limit`.
    pub fn new(workers: u32, limit: Duration) -> Self {
        Self { since: vec![None; workers as usize], limit }
    }

    /// The worker has what it needs to go on.
    pub fn begin(&mut self, rank: u32, now: Instant) {
        if let Some(since) = self.since.get_mut(rank as usize) {
            *since = Some(now);
        }
    }

    /// The worker waits for others, or is done.
    pub fn end(&mut self, rank: u32) {
        if let Some(since) = self.since.get_mut(rank as usize) {
            *since = None;
        }
    }

    /// The late worker; of several the one whose turn began first.
    pub fn late(&self, now: Instant) -> Option<u32> {
        let begun = self.since.iter().zip(0..).filter_map(|(since, rank)| Some(((*since)?, rank)));
        let (since, rank) = begun.min()?;
        (now.saturating_duration_since(since) > self.limit).then_some(rank)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Turns;

    #[test]
    fn who_began_first_is_late_first() {
        let (mut turns, start) = (Turns::new(3, Duration::from_secs(10)), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(turns.late(after(100)), None);
        turns.begin(2, after(0));
        turns.begin(0, after(5));
        assert_eq!((turns.late(after(10)), turns.late(after(11))), (None, Some(2)));
        turns.begin(2, after(11));
        assert_eq!((turns.late(after(15)), turns.late(after(16))), (None, Some(0)));
        turns.end(0);
        assert_eq!((turns.late(after(21)), turns.late(after(22))), (None, Some(2)));
        turns.end(2);
        // Nobody has that seat.
        turns.begin(7, start);
        assert_eq!(turns.late(after(1000)), None);
    }
}
