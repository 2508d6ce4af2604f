//! How much an export may hold in memory and on the disk, and how it waits.

use std::time::Duration;

/// Bounds on memory, disk and delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Spans in the queue.
    pub queue_spans: usize,
    /// Memory of the requests in the queue.
    pub queue_bytes: usize,
    /// Spans sent at once.
    pub batch_spans: usize,
    /// Encoded bytes sent at once. Receivers take 4 MiB by default.
    pub batch_bytes: usize,
    /// Size of each file in the run folder. A part of the disk stays free in any case.
    pub spill_bytes: u64,
    /// Longest wait of offering, in a row, for the disk to make room in the queue.
    pub patience: Duration,
    /// How long the oldest request waits for others to make a batch.
    pub linger: Duration,
    /// Delay after the first failed attempt; it doubles from then on, up to 30 s.
    pub first_delay: Duration,
    /// Rate of resending from the spill file once the collector is back; higher where more waits there.
    pub resend_spans_per_s: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_spans: 16_384,
            queue_bytes: 8 << 20,
            batch_spans: 512,
            batch_bytes: 2 << 20,
            spill_bytes: u64::MAX,
            patience: Duration::from_secs(1),
            linger: Duration::from_secs(1),
            first_delay: Duration::from_millis(200),
            resend_spans_per_s: 10_000,
        }
    }
}
