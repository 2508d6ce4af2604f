//! Reads a run folder, in either form: closed, running, or left behind by a crash.
//!
//! Yields the manifest and iterators over requests, phases, threads, samples and marks, in bounded memory.
//! Nothing on disk is changed, and nothing is kept between calls.

use std::{
    collections::HashSet,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use guestscope_contract::metrics::Quantity;
use hdrhistogram::Histogram;
use serde::Deserialize;

use super::{
    batches::TornEnd,
    columns::{MARKS, PHASES, PhaseRow, SAMPLES, THREADS, TRACE_ID},
    error::{Error, Result},
    histograms,
    limits::{Fault, MANIFEST_BYTES, MANIFEST_VALUES, PHASES as MOST_PHASES, VALUE_BYTES},
    manifest::{FORMAT, MANIFEST, Manifest},
    opening::Place,
    rows::{Rows, damaged},
    sample::Sample,
    stream,
    table::{self, Access, Column},
    wait_columns::WAITS,
    work_columns::GPU_WORK,
};
use crate::{
    analyze::Needs,
    phase::{GpuWork, Mark, PhaseKind, Request, Thread, Wait},
    untrusted::Untrusted,
};

/// Room for a request's phases in advance, 0.7 KB each: one of a million shall not make all others large.
const MOST_ROOM: usize = 16;

/// A run folder, opened for reading.
#[derive(Clone, Debug)]
pub struct Folder {
    place: Place,
    manifest: Manifest,
    left_out: Arc<Mutex<PhasesLeftOut>>,
}

impl Folder {
    /// Opens a folder and reads its manifest.
    ///
    /// # Errors
    /// It is no run folder, of a newer format, damaged or unreadable.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = path.join(MANIFEST);
        let place = Place::open(&path);
        let opened = place.and_then(|place| place.file(MANIFEST).map(|file| (place, file)));
        let (place, opened) = match opened {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(Error::NotARunFolder { path });
            }
            Err(source) => return Err(Error::Read { path: file, source }),
        };
        let mut text = Vec::new();
        let read = opened.take(MANIFEST_BYTES.most + 1).read_to_end(&mut text);
        read.map_err(|source| Error::Read { path: file.clone(), source })?;
        let manifest = manifest_of(&path, &text)?;
        Ok(Self { place, manifest, left_out: Arc::default() })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Requests in the order of their ends.
    pub fn requests(&self) -> Result<Requests> {
        Ok(self.requests_of(self.phases()?))
    }

    /// The same with zeros in place of what is not asked for.
    pub fn requests_with(&self, needs: Needs) -> Result<Requests> {
        let left_out = Quantity::all().filter(|quantity| !needs.has(*quantity));
        let left_out: HashSet<_> = left_out.map(|quantity| quantity.row().column()).collect();
        let is_unwanted = |column: &Column<PhaseRow>| {
            let is_trace = column.name == TRACE_ID && needs == Needs::Traces;
            let is_id = matches!(column.access, Access::Hex { .. });
            // What is known only at the end is no part of a phase.
            is_id && !is_trace || column.at_close || left_out.contains(&*column.name)
        };
        Ok(self.requests_of(Rows::open_without(&self.place, &PHASES, is_unwanted)?))
    }

    fn requests_of(&self, rows: Rows<PhaseRow>) -> Requests {
        let (left_out, told) = (PhasesLeftOut::default(), Arc::clone(&self.left_out));
        Requests { rows, usual: 1, left_out, told }
    }

    /// Phases left out of requests, by the reading that came farthest; none if there are none.
    pub fn left_out(&self) -> Option<PhasesLeftOut> {
        let left_out = *self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        (left_out.phases > 0).then_some(left_out)
    }

    /// Phases, the rows of a request together, its outermost phase first.
    pub fn phases(&self) -> Result<Rows<PhaseRow>> {
        Rows::open(&self.place, &PHASES)
    }

    /// Threads.
    pub fn threads(&self) -> Result<Rows<Thread>> {
        Rows::open(&self.place, &THREADS)
    }

    /// Samples.
    pub fn samples(&self) -> Result<Rows<Sample>> {
        Rows::open(&self.place, &SAMPLES)
    }

    /// Marks.
    pub fn marks(&self) -> Result<Rows<Mark>> {
        Rows::open(&self.place, &MARKS)
    }

    /// Work of GPUs; none if none was recorded.
    pub fn gpu_work(&self) -> Result<Option<Rows<GpuWork>>> {
        let has = |name: &str| self.place.file(name).is_ok();
        let is_there = has(&table::file_name(&GPU_WORK)) || has(&stream::file_name(&GPU_WORK));
        is_there.then(|| Rows::open(&self.place, &GPU_WORK)).transpose()
    }

    /// Long waits, in the order of their ends.
    pub fn waits(&self) -> Result<Rows<Wait>> {
        Rows::open(&self.place, &WAITS)
    }

    /// Duration histogram, ns, of the phases of one kind and name; none if the folder has none for it.
    pub fn histogram(&self, kind: PhaseKind, name: &str) -> Result<Option<Histogram<u64>>> {
        self.histogram_of(kind.name(), name)
    }

    /// Histogram that the workload measured itself, ns, like a load generator's `latency`; none if absent.
    pub fn workload_histogram(&self, name: &str) -> Result<Option<Histogram<u64>>> {
        self.histogram_of(histograms::TOLD, name)
    }

    fn histogram_of(&self, kind: &str, name: &str) -> Result<Option<Histogram<u64>>> {
        let entries = &self.manifest.histograms.entries;
        let Some(entry) = entries.iter().find(|entry| entry.kind == kind && entry.name == name) else {
            return Ok(None);
        };
        // A manifest must not lead out of its folder.
        if Path::new(&entry.file).file_name() != Some(entry.file.as_ref()) {
            return Err(damaged(&self.place.join(MANIFEST), &"a histogram outside the folder", None));
        }
        let path = self.place.join(histograms::DIRECTORY).join(&entry.file);
        let opened = self.place.directory(histograms::DIRECTORY).and_then(|place| place.file(&entry.file));
        let mut file = opened.map_err(|source| Error::Read { path: path.clone(), source })?;
        histograms::read(&mut file).map(Some).map_err(|error| damaged(&path, &error, None))
    }
}

/// The manifest of a folder, from its text.
pub(super) fn manifest_of(folder: &Path, text: &[u8]) -> Result<Manifest> {
    let file = folder.join(MANIFEST);
    check(text).map_err(|fault| fault.at(&file, None))?;
    let manifest = parse(folder, text)?;
    check_words(&manifest).map_err(|fault| fault.at(&file, None))?;
    Ok(manifest)
}

/// Checks the size against the limits. Each value of JSON takes much more memory than its text.
fn check(text: &[u8]) -> std::result::Result<(), Fault> {
    MANIFEST_BYTES.check(text.len() as u64)?;
    let values = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{'));
    MANIFEST_VALUES.check(values.count() as u64)
}

/// Checks words that are printed repeatedly: they must be short.
fn check_words(manifest: &Manifest) -> std::result::Result<(), Fault> {
    let Manifest { name, scenario, platform, fidelity, kernel, cpu_model, hypervisor, run_id, .. } = manifest;
    let words = [name, scenario, platform, fidelity, kernel, cpu_model, hypervisor, run_id];
    words.iter().try_for_each(|word| VALUE_BYTES.check(word.len() as u64))
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
        let (found, known) =
            (Untrusted::told(format_args!("format {format}")), format!("up to format {FORMAT}"));
        return Err(Error::Newer { path: folder.to_owned(), found, known });
    }
    serde_json::from_slice(text).map_err(|error| damaged(&file, &error, None))
}

/// An iterator over requests. After an error it is over.
pub struct Requests {
    rows: Rows<PhaseRow>,
    /// Phases that the next one gets room for.
    usual: usize,
    left_out: PhasesLeftOut,
    /// Where the reader reports phases that it left out.
    told: Arc<Mutex<PhasesLeftOut>>,
}

/// Phases of requests that have more than are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhasesLeftOut {
    /// Number of phases left out.
    pub phases: u64,
    /// The number of requests that they belong to.
    pub requests: u64,
}

impl std::fmt::Display for PhasesLeftOut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { phases, requests } = self;
        let most = MOST_PHASES.most;
        write!(
            formatter,
            "{phases} phases are left out, those beyond {most} of a request, in {requests} requests: their time counts for what is \
             around them"
        )
    }
}

impl Requests {
    pub(super) fn of(rows: Rows<PhaseRow>) -> Self {
        Self { rows, usual: 1, left_out: PhasesLeftOut::default(), told: Arc::default() }
    }

    /// Phases left out of requests so far; none if there are none.
    pub fn left_out(&self) -> Option<PhasesLeftOut> {
        (self.left_out.phases > 0).then_some(self.left_out)
    }

    /// The unusable end of a stream; see [`Rows::torn_end`].
    pub fn torn_end(&self) -> Option<&TornEnd> {
        self.rows.torn_end()
    }

    /// Rows read so far.
    pub fn rows_given(&self) -> u64 {
        self.rows.given()
    }
}

impl Requests {
    fn leave_out(&mut self, phases: u64) {
        self.left_out.phases += phases;
        self.left_out.requests += 1;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.phases < self.left_out.phases {
            *told = self.left_out;
        }
    }
}

impl Iterator for Requests {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.rows.fill()? {
            return Some(Err(error));
        }
        let (id, root) = self.rows.ahead().next().map(|row| (row.phase.id, row.phase.root))?;
        if id != root {
            drop(self.rows.give(1));
            return Some(Err(self.rows.fail(&format!("request {root} lacks its outermost phase"))));
        }
        // Most requests have as many phases as the one before.
        let mut phases = Vec::with_capacity(self.usual);
        let mut too_many = 0;
        loop {
            let rows = self.rows.ahead().take_while(|row| row.phase.root == root).count();
            let kept = rows.min((MOST_PHASES.most as usize).saturating_sub(phases.len()));
            phases.extend(self.rows.give(kept).map(|row| row.phase));
            drop(self.rows.give(rows - kept));
            too_many += (rows - kept) as u64;
            // What follows belongs to another request, or is not decoded yet.
            if self.rows.ahead().next().is_some() {
                break;
            }
            match self.rows.fill() {
                Some(Ok(())) => {}
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        self.usual = phases.len().min(MOST_ROOM);
        if too_many > 0 {
            self.leave_out(too_many);
        }
        Some(Ok(Request { phases }))
    }
}
