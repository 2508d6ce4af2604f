//! Work of GPUs on its way to the phases that asked for it: it waits until the edges before it are paired.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{Session, record_source::RecordSource};
use crate::{
    analyze::{Band, Live},
    folder::GpuTraceRecord,
    gpu::trace::{Schedule, Trace, Traced},
    out,
    phase::{GpuWork, pairing::Output},
    rendezvous::Peer,
};

/// Edges are paired within this time: three drains of the rings.
const SETTLED: Duration = Duration::from_millis(150);
/// Most work that waits.
const MOST: usize = 1 << 17;
/// Most failures that are told.
const TROUBLES: usize = 8;

/// Recording of what ran on GPUs, if it was asked for.
#[derive(Default)]
pub(crate) struct Traces {
    trace: Trace,
    record: Option<GpuTraceRecord>,
    waiting: VecDeque<(Instant, GpuWork)>,
    /// Work for which there was no room.
    left_out: u64,
    /// Judges requests where slow ones open windows.
    live: Option<Live>,
}

impl Traces {
    /// Records by this schedule. `trouble`: why the library is not in the program, if it is not.
    pub(crate) fn new(schedule: Schedule, trouble: Option<&str>) -> Self {
        let record = GpuTraceRecord { asked: schedule.to_string(), ..GpuTraceRecord::default() };
        let live = (schedule == Schedule::Trigger).then(Live::new);
        let mut traces = Self { trace: Trace::new(schedule), record: Some(record), live, ..Self::default() };
        if let Some(trouble) = trouble {
            traces.failed(trouble);
        }
        traces
    }

    /// Takes the connection of a program that has the library.
    pub(crate) fn admit(&mut self, peer: Peer) {
        let (pid, stream, place) = peer.into_parts();
        self.trace.admit(pid, stream, place);
    }

    /// See [`Trace::next`].
    pub(crate) async fn next(&mut self) -> Vec<Traced> {
        self.trace.next().await
    }

    /// What was asked for and found; none if nothing was asked for.
    pub(crate) fn record(&self) -> Option<GpuTraceRecord> {
        self.record.clone()
    }

    /// Requests that have ended: a slow one may open a window.
    pub(crate) fn ended(&mut self, outputs: &[Output]) {
        let Some(live) = &mut self.live else { return };
        for output in outputs {
            let Output::Request(request) = output else { continue };
            let tail = live.observe(request).and_then(|verdict| verdict.tail);
            if matches!(tail, Some(Band::P99 | Band::P999)) {
                self.trace.trigger();
            }
        }
    }

    fn failed(&mut self, what: &str) {
        let Some(record) = self.record.as_mut().filter(|record| record.troubles.len() < TROUBLES) else {
            return;
        };
        if !record.troubles.iter().any(|known| known == what) {
            out::say(&format!("warning: work of GPUs: {what}\n"));
            record.troubles.push(what.to_owned());
        }
    }

    fn known(&mut self, version: u32, library: &str) {
        if let Some(record) = &mut self.record {
            record.programs += 1;
            if record.cupti_version.replace(version).is_none() {
                out::say(&format!("work of GPUs is recorded by {library} (version {version})\n"));
            }
        }
    }
}

impl<F: RecordSource> Session<F> {
    /// Takes what programs told.
    pub(crate) fn traced(&mut self, traced: Vec<Traced>) {
        let now = Instant::now();
        let mut is_new = false;
        for one in traced {
            match one {
                Traced::Known(version, library) => {
                    self.traces.known(version, &library.to_string());
                    is_new = true;
                }
                Traced::Trouble(what) => self.traces.failed(&what),
                Traced::Work(_) if self.traces.waiting.len() >= MOST => self.traces.left_out += 1,
                Traced::Work(work) => self.traces.waiting.push_back((now, work)),
            }
        }
        if is_new {
            self.export.gpu(self.gpu_record());
        }
    }

    /// Charges work that has waited for long enough, or all of it.
    pub(crate) fn settle_gpu_work(&mut self, is_last: bool) {
        while let Some((came, _)) = self.traces.waiting.front()
            && (is_last || came.elapsed() >= SETTLED)
            && let Some((_, mut work)) = self.traces.waiting.pop_front()
        {
            if work.is_window() {
                work.lost = work.lost.saturating_add(std::mem::take(&mut self.traces.left_out));
            }
            self.feed.pairing().gpu_work(work);
        }
    }

    /// What was still on its way when the program had ended.
    pub(crate) fn last_gpu_work(&mut self) {
        let last = self.traces.trace.last();
        self.traced(last);
        self.settle_gpu_work(true);
    }
}
