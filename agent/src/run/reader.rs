//! Reads a run folder back, in either form: closed, running, or left behind by a crash.
//!
//! Yields the manifest and iterators over requests, phases, threads, samples and marks, all in bounded memory. It
//! changes nothing on disk and keeps nothing between calls.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use hdrhistogram::Histogram;
use serde::Deserialize;

use super::{
    MANIFEST,
    batches::TornEnd,
    columns::{MARKS, PHASES, PhaseRow, SAMPLES, Sample, THREADS},
    error::{Error, Result},
    histograms,
    manifest::{FORMAT, Manifest},
    rows::{Rows, damaged},
    table::{Access, Column},
    wait_columns::WAITS,
};
use crate::phase::{Mark, Phase, PhaseKind, Request, Thread, Wait};

/// Largest manifest that is read: 1,000 histograms and a day of clock pairs make 0.4 MB; the workload's part is the
/// caller's.
const MOST_MANIFEST_BYTES: u64 = 16 << 20;

/// Phases that a request gets room for before they are seen, 0.7 KB each: one of a million shall not make all others large.
const MOST_ROOM: usize = 16;

/// A run folder, opened for reading.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    manifest: Manifest,
}

impl Folder {
    /// Opens a folder and reads its manifest.
    ///
    /// # Errors
    /// It is no run folder, of a newer format, damaged or unreadable.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = path.join(MANIFEST);
        let read = File::open(&file).and_then(|opened| {
            let mut text = Vec::new();
            opened.take(MOST_MANIFEST_BYTES).read_to_end(&mut text)?;
            Ok(text)
        });
        let text = match read {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(Error::NotARunFolder { path });
            }
            Err(source) => return Err(Error::Read { path: file, source }),
        };
        let manifest = parse(&path, &text)?;
        Ok(Self { path, manifest })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Requests in the order of their ends.
    pub fn requests(&self) -> Result<Requests> {
        Ok(Requests::of(self.phases()?))
    }

    /// The same with zeros as the ids of their traces and spans, which are most of what there is to unpack.
    pub fn requests_without_ids(&self) -> Result<Requests> {
        let is_id = |column: &Column<PhaseRow>| matches!(column.access, Access::Hex { .. });
        Ok(Requests::of(Rows::open_without(&self.path, &PHASES, is_id)?))
    }

    /// Phases, the rows of a request together, its outermost phase first.
    pub fn phases(&self) -> Result<Rows<PhaseRow>> {
        Rows::open(&self.path, &PHASES)
    }

    /// Threads.
    pub fn threads(&self) -> Result<Rows<Thread>> {
        Rows::open(&self.path, &THREADS)
    }

    /// Samples.
    pub fn samples(&self) -> Result<Rows<Sample>> {
        Rows::open(&self.path, &SAMPLES)
    }

    /// Marks.
    pub fn marks(&self) -> Result<Rows<Mark>> {
        Rows::open(&self.path, &MARKS)
    }

    /// Long waits, in the order of their ends.
    pub fn waits(&self) -> Result<Rows<Wait>> {
        Rows::open(&self.path, &WAITS)
    }

    /// The histogram of durations, ns, of the phases of one kind and name; none if the folder has none for it.
    pub fn histogram(&self, kind: PhaseKind, name: &str) -> Result<Option<Histogram<u64>>> {
        self.histogram_of(kind.name(), name)
    }

    /// A histogram that the workload measured itself, ns, like a load generator's `latency`; none if there is none.
    pub fn workload_histogram(&self, name: &str) -> Result<Option<Histogram<u64>>> {
        self.histogram_of(histograms::TOLD, name)
    }

    fn histogram_of(&self, kind: &str, name: &str) -> Result<Option<Histogram<u64>>> {
        let entries = &self.manifest.histograms.entries;
        let Some(entry) = entries.iter().find(|entry| entry.kind == kind && entry.name == name) else {
            return Ok(None);
        };
        let path = self.path.join(histograms::DIRECTORY);
        // A manifest must not lead out of its folder.
        if Path::new(&entry.file).file_name() != Some(entry.file.as_ref()) {
            return Err(damaged(&self.path.join(MANIFEST), &"a histogram outside the folder", None));
        }
        let path = path.join(&entry.file);
        let mut file = File::open(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        histograms::read(&mut file).map(Some).map_err(|error| damaged(&path, &error, None))
    }
}

/// The format first: what a newer one looks like is not known.
fn parse(folder: &Path, text: &[u8]) -> Result<Manifest> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let file = folder.join(MANIFEST);
    let Format { format } = serde_json::from_slice(text).map_err(|error| damaged(&file, &error, None))?;
    if format > u64::from(FORMAT) {
        let (found, known) = (format!("format {format}"), format!("up to format {FORMAT}"));
        return Err(Error::Newer { path: folder.to_owned(), found, known });
    }
    serde_json::from_slice(text).map_err(|error| damaged(&file, &error, None))
}

/// An iterator over requests. After an error it is over.
pub struct Requests {
    rows: Rows<PhaseRow>,
    /// The first row of the next request.
    next: Option<Phase>,
    /// Phases that the next one gets room for.
    usual: usize,
}

impl Requests {
    fn of(rows: Rows<PhaseRow>) -> Self {
        Self { rows, next: None, usual: 1 }
    }

    /// What could not be used at the end of a stream; see [`Rows::torn_end`].
    pub fn torn_end(&self) -> Option<&TornEnd> {
        self.rows.torn_end()
    }

    /// Rows read so far.
    pub fn rows_given(&self) -> u64 {
        self.rows.given()
    }
}

impl Iterator for Requests {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = match self.next.take() {
            Some(phase) => phase,
            None => match self.rows.next()? {
                Ok(row) => row.phase,
                Err(error) => return Some(Err(error)),
            },
        };
        let root = first.root;
        if first.id != root {
            return Some(Err(self.rows.fail(&format!("request {root} lacks its outermost phase"))));
        }
        // Most requests have as many phases as the one before.
        let mut phases = Vec::with_capacity(self.usual);
        phases.push(first);
        loop {
            match self.rows.next() {
                Some(Ok(row)) if row.phase.root == root => phases.push(row.phase),
                Some(Ok(row)) => {
                    self.next = Some(row.phase);
                    break;
                }
                None => break,
                Some(Err(error)) => return Some(Err(error)),
            }
        }
        self.usual = phases.len().min(MOST_ROOM);
        Some(Ok(Request { phases }))
    }
}
