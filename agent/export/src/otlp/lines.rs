//! Spans of a finished run as OTLP-JSON lines, for readers of files: Jaeger's upload page, the Collector's
//! `otlpjsonfile`.
//!
//! Takes waits and requests in the order in which they ended and writes a line per batch and service. The
//! spans are those that a live export sends; nothing is queued, retried or dropped, and the first error of
//! the writer ends it.

use std::{
    borrow::Cow,
    io::{self, Write},
    sync::Arc,
};

use opentelemetry_proto::tonic::{common::v1::any_value::Value, trace::v1::Span};

use super::{
    LiveVerdict, message,
    service::{PerService, Resources, Service},
    spans::Trace,
    waits::Keeper,
};
use crate::phase::{GpuReading, GpuWork, Request, Restored, Wait};

/// Most spans of a line: some 500 KB, a quarter of what receivers take by default.
const LINE_SPANS: usize = 256;

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests, and processes of a program without marks.
    pub traces: u64,
    /// Spans of phases and of waits.
    pub spans: u64,
    /// Waits that had no room and are counted in no span.
    pub waits_left_out: u64,
}

/// Writes lines.
pub struct Lines<W> {
    writer: W,
    resources: Resources,
    batches: PerService<Vec<Span>>,
    waits: Keeper,
    written: Written,
}

impl<W: Write> Lines<W> {
    /// A writer for one service, with its other resource attributes.
    pub fn new(writer: W, service_name: &str, resource: Vec<(Cow<'static, str>, Value)>) -> Self {
        let resources = Resources::new(service_name, resource);
        let (batches, waits) = (PerService::default(), Keeper::default());
        Self { writer, resources, batches, waits, written: Written::default() }
    }

    /// A wait whose request is still to come.
    pub fn wait(&mut self, wait: Wait) {
        self.waits.add(wait);
    }

    /// The guest was restored or moved, inside of requests that are still to come.
    pub fn restored(&mut self, restored: Restored) {
        self.waits.restored(restored);
    }

    /// A GPU reading from before the end of requests that are still to come.
    pub fn gpu(&mut self, reading: GpuReading) {
        self.waits.gpu(reading);
    }

    /// Work of a GPU whose request is still to come.
    pub fn gpu_work(&mut self, work: GpuWork) {
        self.waits.gpu_work(work);
    }

    /// A request whose wall times are shifted by `wall_offset_ns`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn request(
        &mut self,
        request: Arc<Request>,
        verdict: LiveVerdict,
        wall_offset_ns: i64,
    ) -> io::Result<()> {
        let waits = self.waits.take_of(&request, verdict.tail.as_deref());
        self.written.traces += 1;
        for (service, span) in Trace::new(request, waits, verdict, wall_offset_ns) {
            let batch = self.batches.get_mut(service);
            batch.push(span);
            if batch.len() == LINE_SPANS {
                self.flush(service)?;
            }
        }
        Ok(())
    }

    /// Writes the pending spans, and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.flush(Service::Program)?;
        self.flush(Service::Kernel)?;
        self.flush(Service::Gpu)?;
        self.writer.flush()?;
        self.written.waits_left_out = self.waits.no_room;
        Ok((self.writer, self.written))
    }

    fn flush(&mut self, service: Service) -> io::Result<()> {
        let mut batch = PerService::default();
        std::mem::swap(batch.get_mut(service), self.batches.get_mut(service));
        let request = self.resources.request(batch);
        if request.resource_spans.is_empty() {
            return Ok(());
        }
        self.written.spans += message::count(&request);
        self.writer.write_all(&message::line(&request)?)
    }
}
