//! What the run folder keeps of the export: spans that wait for the collector, and spans that it refused.
//!
//! Two files of frames while the program runs. At the end what is left of each becomes OTLP-JSON lines for
//! people and other tools, [`SPILL_FILE`] and [`REFUSED_FILE`], unless there is so much that this would take
//! long: then the frames stay, which `zstd -dc` turns into protobuf.

use std::io::{BufWriter, Write as _};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use super::{
    message,
    spill::{Spill, SpillError},
};
use crate::guarded::Directory;

/// File of waiting spans, as lines.
pub const SPILL_FILE: &str = "spill.otlp.jsonl";
/// File of refused spans, as lines.
pub const REFUSED_FILE: &str = "refused.otlp.jsonl";
/// File of waiting spans, as frames.
pub(super) const SPILL_FRAMES: &str = "spill.otlp.binpb.zst";
/// File of refused spans, as frames.
pub(super) const REFUSED_FRAMES: &str = "refused.otlp.binpb.zst";

/// Most spans turned into lines: some 12 MB, a third of a second's work. More stay as frames.
const MOST_LINES_SPANS: u64 = 16_384;

/// Names of the files with spans that were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Waiting spans.
    pub(super) waiting: &'static str,
    /// Refused spans.
    pub(super) refused: &'static str,
}

impl Default for Names {
    fn default() -> Self {
        Self { waiting: SPILL_FRAMES, refused: REFUSED_FRAMES }
    }
}

/// Both files, waiting and refused.
pub(super) struct Keep {
    folder: Option<Directory>,
    waiting: Spill,
    refused: Spill,
}

impl Keep {
    /// Files in `folder`, if there is one; `bound_bytes` holds for each file.
    pub(super) fn new(folder: Option<Directory>, bound_bytes: u64) -> Self {
        Self {
            waiting: Spill::new(folder.clone(), SPILL_FRAMES, bound_bytes),
            refused: Spill::new(folder.clone(), REFUSED_FRAMES, bound_bytes),
            folder,
        }
    }

    /// Number of waiting spans.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.spans()
    }

    /// Keeps a request that waits; on an error the reason, for people.
    pub(super) fn spill(&mut self, request: &ExportTraceServiceRequest) -> Result<(), String> {
        self.waiting.push(request).map_err(|error| error.to_string())
    }

    /// Keeps a request that was refused; on an error the reason, for people.
    pub(super) fn refused(&mut self, request: &ExportTraceServiceRequest) -> Result<(), String> {
        self.refused.push(request).map_err(|error| error.to_string())
    }

    /// The oldest waiting request, which stays until [`Keep::leave_behind`]; or how many spans cannot be
    /// read.
    pub(super) fn oldest(&mut self) -> Option<Result<ExportTraceServiceRequest, (u64, String)>> {
        let (count, request) = self.waiting.front()?;
        Some(request.map_err(|error| (count, error.to_string())))
    }

    /// Removes the oldest request.
    pub(super) fn leave_behind(&mut self) {
        self.waiting.pop();
    }

    /// Closes the files. Returns where the remaining spans lie, and any error.
    pub(super) fn close(&mut self) -> (Names, Result<(), String>) {
        let mut names = Names::default();
        let files = [
            (&mut self.waiting, SPILL_FILE, &mut names.waiting),
            (&mut self.refused, REFUSED_FILE, &mut names.refused),
        ];
        let mut outcome = Ok(());
        for (spill, lines, name) in files {
            match close(spill, self.folder.as_ref(), lines) {
                Ok(true) => *name = lines,
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        }
        (names, outcome)
    }
}

/// Turns few remaining spans into lines; true if it did. On failure the frames stay.
fn close(spill: &mut Spill, folder: Option<&Directory>, name: &str) -> Result<bool, String> {
    let few = (1..=MOST_LINES_SPANS).contains(&spill.spans());
    let made = folder.filter(|_| few).map(|folder| write_lines(spill, folder, name));
    if let Some(Ok(())) = made {
        spill.clear();
    }
    let outcome = made.map_or(Ok(false), |made| made.map(|()| true));
    spill.close().map_err(|error| error.to_string())?;
    outcome
}

fn write_lines(spill: &mut Spill, folder: &Directory, name: &str) -> Result<(), String> {
    let file = folder.create(name).map_err(|error| format!("cannot make {name}: {error}"))?;
    let mut writer = BufWriter::new(&file);
    let mut written = spill.each(|request| writer.write_all(&message::line(&request)?));
    let flushed = writer.flush();
    if let (Ok(()), Err(error)) = (&written, flushed) {
        written = Err(SpillError::Io { file: name.to_owned(), error });
    }
    written.map_err(|error| {
        // A partial file would pass for a complete one.
        folder.remove_ours(name, &file).unwrap_or_default();
        error.to_string()
    })
}
