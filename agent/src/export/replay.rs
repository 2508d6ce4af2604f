//! Sends a folder to a collector, as fast as the collector takes it, with a live export's retries and exact
//! counters.
//!
//! The sending is [`Exporter`]'s. A live export must never wait and spills what it cannot send; here the
//! folder keeps everything anyway, so reading waits instead, and nothing is written anywhere.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    error::ExportFileError,
    taker::{Taker, resource},
};
use crate::{
    folder::Manifest,
    health::ExportHealth,
    phase::{GpuReading, GpuWork, Request, Restored, Wait},
    sinks::{
        otlp::{Config, Exporter, FINISH, Limits, LiveVerdict},
        terminal::Count,
    },
    untrusted::Untrusted,
};

/// Pending spans at which reading waits: 16 batches, some 10 MB.
const MOST_PENDING: u64 = 8_192;
/// Interval between checks for room.
const LOOK: Duration = Duration::from_millis(2);
/// How long the last spans, too few for a batch, wait for more.
const LINGER: Duration = Duration::from_millis(50);

/// A folder's export to a collector.
pub(super) struct Replay {
    exporter: Exporter,
    /// Time without progress after which the export is given up.
    patience: Duration,
    /// Pending spans at the last progress, and when that was.
    moved: (u64, Instant),
    progress: Count,
    rows: usize,
}

impl Replay {
    /// Connects to the collector that the command line or the environment names.
    pub(super) fn start(
        manifest: &Manifest,
        endpoint: Option<&str>,
        patience: Duration,
    ) -> Result<Self, ExportFileError> {
        // Unlimited here: reading is bounded by this module, and nothing is to be written to disk.
        let limits =
            Limits { queue_spans: usize::MAX, queue_bytes: usize::MAX, linger: LINGER, ..Limits::default() };
        let exporter = Exporter::start(Config {
            endpoint: endpoint.map(str::to_owned),
            service_name: manifest.name.clone(),
            resource: resource(manifest),
            limits,
            ..Config::default()
        })?;
        let all = usize::try_from(manifest.rows.phases).unwrap_or(usize::MAX);
        let progress = Count::start("phases", all, true);
        Ok(Self { exporter, patience, moved: (0, Instant::now()), progress, rows: 0 })
    }

    /// Waits until at most `most` spans are pending; false if there is no progress any more.
    fn wait_for(&mut self, most: u64) -> bool {
        loop {
            let pending = self.exporter.pending();
            if pending < self.moved.0 {
                self.moved = (pending, Instant::now());
            }
            if pending <= most {
                return true;
            }
            if self.moved.1.elapsed() >= self.patience {
                return false;
            }
            thread::sleep(LOOK);
        }
    }

    /// Sends the rest and returns the final counters.
    pub(super) fn finish(mut self) -> Result<ExportHealth, ExportFileError> {
        let deadline = if self.wait_for(0) { FINISH } else { Duration::ZERO };
        self.progress.finish();
        let health = self.exporter.finish(deadline);
        let ExportHealth { spans_sent, spans_rejected, spans_dropped, .. } = health;
        if spans_rejected + spans_dropped > 0 {
            let why = self.exporter.why_not_sent().unwrap_or_else(|| "it did not say why".to_owned());
            let why = Untrusted::told(why).to_string();
            let taken = spans_sent - spans_rejected;
            return Err(ExportFileError::NotTaken {
                taken,
                rejected: spans_rejected,
                left: spans_dropped,
                why,
            });
        }
        Ok(health)
    }
}

impl Taker for Replay {
    fn wait(&mut self, wait: Wait) {
        self.exporter.wait(wait);
    }

    fn restored(&mut self, restored: Restored) {
        self.exporter.restored(restored);
    }

    fn gpu(&mut self, reading: GpuReading) {
        self.exporter.gpu(reading);
    }

    fn gpu_work(&mut self, work: GpuWork) {
        self.exporter.gpu_work(work);
    }

    fn request(
        &mut self,
        request: Arc<Request>,
        verdict: LiveVerdict,
        wall_offset_ns: i64,
    ) -> io::Result<()> {
        self.rows += request.phases.len();
        self.exporter.offer_at(request, verdict, wall_offset_ns);
        self.progress.update(self.rows);
        // Spans offered a moment ago are no sign of a stall.
        let pending = self.exporter.pending();
        if pending <= MOST_PENDING {
            self.moved = (pending, Instant::now());
            return Ok(());
        }
        self.moved.0 = self.moved.0.max(pending);
        if self.wait_for(MOST_PENDING / 2) {
            return Ok(());
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}
