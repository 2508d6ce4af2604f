//! What the run folder keeps of the export: spans that wait for the collector, and spans that it refused.
//!
//! Two files of OTLP-JSON lines, [`SPILL_FILE`] and [`REFUSED_FILE`]. Only the first is ever read again; the second is
//! for people, who can send it elsewhere.

use std::path::Path;

use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::{Resource, trace::SpanData};

use super::{
    json,
    service::{PerService, Service},
    spill::Spill,
};

/// Spans that wait.
pub const SPILL_FILE: &str = "spill.otlp.jsonl";
/// Spans that the collector will never take.
pub const REFUSED_FILE: &str = "refused.otlp.jsonl";

/// Was it written?
pub(super) enum Kept {
    /// Yes.
    Written,
    /// No: the spans again, and why.
    Not {
        /// Unharmed.
        spans: Vec<SpanData>,
        /// For people.
        error: String,
    },
}

/// Both files.
pub(super) struct Keep {
    resources: PerService<ResourceAttributesWithSchema>,
    waiting: Spill,
    refused: Spill,
}

impl Keep {
    /// In `folder`, if there is one; `bound_bytes` holds for each file.
    pub(super) fn new(folder: Option<&Path>, bound_bytes: u64, resources: &PerService<Resource>) -> Self {
        let PerService { program, kernel } = resources;
        Self {
            resources: PerService { program: program.into(), kernel: kernel.into() },
            waiting: Spill::new(folder, SPILL_FILE, bound_bytes),
            refused: Spill::new(folder, REFUSED_FILE, bound_bytes),
        }
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A batch as a line, with the resource of its service.
    fn line(&self, spans: Vec<SpanData>) -> Result<Vec<u8>, String> {
        let service = spans.first().map_or(Service::Program, Service::of);
        json::write(spans, self.resources.get(service)).map_err(|error| error.to_string())
    }

    /// Spans that have to wait.
    pub(super) fn spill(&mut self, spans: Vec<SpanData>) -> Kept {
        let count = spans.len() as u64;
        let written = self.line(spans.clone());
        match written.and_then(|line| self.waiting.push(&line, count).map_err(|error| error.to_string())) {
            Ok(()) => Kept::Written,
            Err(error) => Kept::Not { spans, error },
        }
    }

    /// Spans that were refused.
    pub(super) fn refused(&mut self, spans: Vec<SpanData>) -> Result<(), String> {
        let count = spans.len() as u64;
        let line = self.line(spans)?;
        self.refused.push(&line, count).map_err(|error| error.to_string())
    }

    /// The spans that have waited longest, which stay until [`Keep::leave_behind`]; or how many of them cannot be read.
    pub(super) fn oldest(&mut self) -> Option<Result<Vec<SpanData>, (u64, String)>> {
        let (count, line) = self.waiting.front()?;
        let spans = line.map_err(|error| error.to_string());
        let spans = spans.and_then(|line| json::read(&line).map_err(|error| error.to_string()));
        Some(spans.map_err(|error| (count, error)))
    }

    /// The oldest have been dealt with.
    pub(super) fn leave_behind(&mut self) {
        self.waiting.pop();
    }

    /// Tidies up.
    pub(super) fn close(&mut self) -> Result<(), String> {
        self.waiting.close().map_err(|error| error.to_string())
    }
}
