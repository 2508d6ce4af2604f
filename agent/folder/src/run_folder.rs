//! The run folder while it is written: rows as they come, and its manifest.

use std::path::{Path, PathBuf};

use guestscope_base::{
    guarded::{Directory, Owner},
    json,
    untrusted::Untrusted,
};
use guestscope_model::phase::{GpuWork, Mark, Request, Thread, Wait};

use super::{
    close::{self, Closed, Explain, Finisher},
    columns::{PHASES, PhaseRow},
    error::{Error, Result},
    histograms::{self, Place},
    manifest::{MANIFEST, Manifest, RowCounts, State},
    name,
    reader::{self, Requests},
    rows::Rows,
    sample::Sample,
    stream::{self, Stream},
    work_columns::GPU_WORK,
};

/// Errors of writing, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderHealth {
    /// The last error, for people; none if all went well.
    pub last_error: Option<String>,
    /// The last write of a file failed: its rows wait.
    pub is_failing: bool,
    /// Rows that are in the files.
    pub rows: RowCounts,
    /// Rows that never will be.
    pub rows_lost: RowCounts,
}

/// A run folder that is being written. If it is dropped and not closed, waiting rows are written and the
/// folder stays as after a crash: readable.
///
/// From start to end it is reached by descriptors alone. Other files that have its name, or its files' names,
/// by then are neither read nor written.
pub struct RunFolder {
    pub(super) path: PathBuf,
    pub(super) directory: Directory,
    pub(super) owner: Option<Owner>,
    pub(super) manifest: Manifest,
    pub(super) phases: Stream<PhaseRow>,
    pub(super) threads: Stream<Thread>,
    pub(super) samples: Stream<Sample>,
    pub(super) marks: Stream<Mark>,
    pub(super) waits: Stream<Wait>,
    /// None before the first row.
    pub(super) gpu_work: Option<Stream<GpuWork>>,
    pub(super) last_error: Option<String>,
}

impl RunFolder {
    /// Path where it was created.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Current path, if the folder was moved.
    pub fn current_path(&self) -> PathBuf {
        self.directory.current_path().unwrap_or_else(|| self.path.clone())
    }

    /// Gives it the name that fits this scenario, which may have become known since it was made. It keeps its
    /// own where it was moved, or where that name is taken.
    pub fn rename(&mut self, scenario: &str) {
        let of = |scenario: &str| {
            let start = self.manifest.clocks.first().copied().unwrap_or_default();
            name::folder_name(start.wall_ns, scenario, &self.manifest.name)
        };
        let (before, now) = (of(&self.manifest.scenario), of(scenario));
        // A number behind the name tells it from others of the same second.
        let number = self.directory.made_as().and_then(|made| made.strip_prefix(&before));
        let Some(number) = number.filter(|_| before != now) else { return };
        let now = format!("{now}{number}");
        // Without the new name the old one is as good: the manifest has the scenario.
        if self.directory.rename(&now).is_ok() {
            self.path.set_file_name(now);
        }
    }

    /// The user with whose rights it was made and is written; none: the user of this process.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// The directory, for other files that belong in it.
    pub fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// The requests in the order of their ends, as this process wrote them, even if the file was renamed or
    /// removed.
    ///
    /// # Errors
    /// No file descriptor is free.
    pub fn requests(&self) -> Result<Requests> {
        Ok(Requests::of(self.rows(&self.phases)?))
    }

    /// The threads that it holds; as above.
    ///
    /// # Errors
    /// As above.
    pub fn threads(&self) -> Result<Rows<Thread>> {
        self.rows(&self.threads)
    }

    /// The waits that it holds; as above.
    ///
    /// # Errors
    /// As above.
    pub fn waits(&self) -> Result<Rows<Wait>> {
        self.rows(&self.waits)
    }

    /// The work of GPUs that it holds, if any; as above.
    ///
    /// # Errors
    /// As above.
    pub fn gpu_work(&self) -> Result<Option<Rows<GpuWork>>> {
        self.gpu_work.as_ref().map(|stream| self.rows(stream)).transpose()
    }

    fn rows<R>(&self, stream: &Stream<R>) -> Result<Rows<R>> {
        let path = self.path.join(stream::file_name(stream.table));
        let part = stream.part().map_err(|source| Error::Read { path: path.clone(), source })?;
        Ok(Rows::of_stream(stream.table, path, part))
    }

    /// The manifest as it stands.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Appends a request: all its phases, or (counted as lost) none.
    pub fn append_request(&mut self, request: &Request) {
        let warmup = request.is_warmup();
        let rows = request.phases.iter().map(|phase| PhaseRow {
            phase: phase.clone(),
            warmup,
            cause: None,
            tail: None,
        });
        let appended = self.phases.append(rows);
        self.note(appended);
    }

    /// Appends a thread.
    pub fn append_thread(&mut self, thread: &Thread) {
        let appended = self.threads.append([thread.clone()].into_iter());
        self.note(appended);
    }

    /// Appends a mark.
    pub fn append_mark(&mut self, mark: &Mark) {
        let appended = self.marks.append([mark.clone()].into_iter());
        self.note(appended);
    }

    /// Appends a wait.
    pub fn append_wait(&mut self, wait: &Wait) {
        let appended = self.waits.append([wait.clone()].into_iter());
        self.note(appended);
    }

    /// Appends work of a GPU; the first makes the table.
    pub fn append_gpu_work(&mut self, work: &GpuWork) {
        if self.gpu_work.is_none() {
            match Stream::create(&self.directory, &GPU_WORK) {
                Ok(stream) => self.gpu_work = Some(stream),
                Err(error) => return self.note(Err(error)),
            }
        }
        let appended =
            self.gpu_work.as_mut().map_or(Ok(()), |stream| stream.append([work.clone()].into_iter()));
        self.note(appended);
    }

    /// Appends a sample.
    pub fn append_sample(&mut self, sample: &Sample) {
        let appended = self.samples.append([*sample].into_iter());
        self.note(appended);
    }

    /// Writes what waits. Call it every second: that is what a crash may cost.
    pub fn flush(&mut self) {
        let flushed = [
            self.phases.flush(),
            self.threads.flush(),
            self.samples.flush(),
            self.marks.flush(),
            self.waits.flush(),
            self.gpu_work.as_mut().map_or(Ok(()), Stream::flush),
        ];
        for result in flushed {
            self.note(result);
        }
    }

    /// Writes what waits for the last time; what cannot be written now is lost, and in [`Self::health`].
    /// Nothing can be appended afterwards.
    pub fn end(&mut self) {
        for result in self.close_streams() {
            self.note(result);
        }
    }

    /// Changes the manifest and writes it. Call it every minute; the row counts are filled in.
    pub fn update_manifest(&mut self, change: impl FnOnce(&mut Manifest)) {
        self.change_manifest(change);
        let written = self.write_manifest();
        self.note(written);
    }

    /// Changes the manifest, which is written with the next update, or at the end.
    pub fn change_manifest(&mut self, change: impl FnOnce(&mut Manifest)) {
        change(&mut self.manifest);
    }

    fn is_failing(&self) -> bool {
        let gpu_work = self.gpu_work.as_ref().is_some_and(Stream::is_failing);
        let [phases, threads] = [self.phases.is_failing(), self.threads.is_failing()];
        let others = [self.samples.is_failing(), self.marks.is_failing(), self.waits.is_failing()];
        gpu_work || phases || threads || others.contains(&true)
    }

    /// Errors of writing, so far.
    pub fn health(&self) -> FolderHealth {
        FolderHealth {
            last_error: self.last_error.clone(),
            is_failing: self.is_failing(),
            rows: self.row_counts(),
            rows_lost: self.rows_lost(),
        }
    }

    /// Writes what waits, turns the streams into Parquet, makes the histograms and writes the manifest,
    /// changed by `finish`, for the last time. `explain` gives each phase its cause and tail; `progress` gets
    /// the phases done and their total.
    ///
    /// # Errors
    /// The last manifest could not be written: the folder stays readable, as one that still runs. All other
    /// failures are in [`Closed::errors`].
    pub fn close(
        mut self,
        finish: impl FnOnce(&mut Manifest),
        explain: &mut Explain<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Closed> {
        let mut errors: Vec<Error> = self.close_streams().into_iter().filter_map(Result::err).collect();
        self.directory.open_up();
        // A clone, since the rest changes during the loop.
        let directory = self.directory.clone();
        let mut place = Place::new(&directory);
        errors.extend(self.close_phases(&mut place, explain, progress));
        let mut plain = |converted: Result<()>| errors.extend(converted.err());
        plain(close::convert(&directory, &self.path, &mut self.threads, &mut Ok));
        plain(close::convert(&directory, &self.path, &mut self.samples, &mut Ok));
        plain(close::convert(&directory, &self.path, &mut self.marks, &mut Ok));
        plain(close::convert(&directory, &self.path, &mut self.waits, &mut Ok));
        if let Some(work) = &mut self.gpu_work {
            plain(close::convert(&directory, &self.path, work, &mut Ok));
        }

        // Tables that could not be closed may have lost rows.
        (self.manifest.rows, self.manifest.rows_lost) = (self.row_counts(), self.rows_lost());
        finish(&mut self.manifest);
        let kept = histograms::keep_told(&mut self.manifest, &mut place);
        errors.extend(
            kept.map_err(|source| Error::Write { file: histograms::DIRECTORY.to_owned(), source }).err(),
        );
        self.manifest.state = State::Closed;
        if let Some(error) = errors.last() {
            self.last_error = Some(error.to_string());
        }
        if let Some(error) = self.leave_out_workload()? {
            self.last_error = Some(error.to_string());
            errors.push(error);
        }
        self.write_manifest()?;
        Ok(Closed { path: self.path.clone(), manifest: std::mem::take(&mut self.manifest), errors })
    }
}

/// The parts of the above.
impl RunFolder {
    fn close_streams(&mut self) -> [Result<()>; 6] {
        [
            self.phases.close(),
            self.threads.close(),
            self.samples.close(),
            self.marks.close(),
            self.waits.close(),
            self.gpu_work.as_mut().map_or(Ok(()), Stream::close),
        ]
    }

    fn close_phases(
        &mut self,
        place: &mut Place<'_>,
        explain: &mut Explain<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Option<Error> {
        let all = self.phases.written();
        let mut finisher = Finisher::new(&PHASES, &self.path, explain);
        let converted = close::convert(&self.directory, &self.path, &mut self.phases, &mut |batch| {
            let batch = finisher.finish(&batch)?;
            progress(finisher.rows(), all);
            Ok(batch)
        });
        let written = converted.and_then(|()| {
            let histograms = finisher.write_histograms(place);
            histograms.map_err(|source| Error::Write { file: histograms::DIRECTORY.to_owned(), source })
        });
        written.map(|histograms| self.manifest.histograms = histograms).err()
    }

    fn row_counts(&self) -> RowCounts {
        RowCounts {
            phases: self.phases.written(),
            threads: self.threads.written(),
            samples: self.samples.written(),
            marks: self.marks.written(),
            waits: self.waits.written(),
            gpu_work: self.gpu_work.as_ref().map_or(0, Stream::written),
        }
    }

    fn rows_lost(&self) -> RowCounts {
        RowCounts {
            phases: self.phases.lost(),
            threads: self.threads.lost(),
            samples: self.samples.lost(),
            marks: self.marks.lost(),
            waits: self.waits.lost(),
            gpu_work: self.gpu_work.as_ref().map_or(0, Stream::lost),
        }
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.last_error = Some(error.to_string());
        }
    }

    /// A workload's description of itself may make the manifest unreadable: too large, or too deep.
    fn leave_out_workload(&mut self) -> Result<Option<Error>> {
        if self.manifest.workload.is_none() {
            return Ok(None);
        }
        let text = self.manifest_text()?;
        let Err(error) = reader::manifest_of(&self.path, text.as_bytes()) else { return Ok(None) };
        self.manifest.workload = None;
        let what = format!("what the workload says of itself is left out: {error}");
        Ok(Some(Error::Beyond { path: self.path.join(MANIFEST), what }))
    }

    pub(super) fn write_manifest(&mut self) -> Result<()> {
        let text = self.manifest_text()?;
        let written = self.directory.replace_with(MANIFEST, text.as_bytes());
        written.map_err(|source| Error::Write { file: MANIFEST.to_owned(), source })
    }

    fn manifest_text(&mut self) -> Result<String> {
        self.manifest.rows = self.row_counts();
        self.manifest.rows_lost = self.rows_lost();
        if self.last_error.is_some() {
            self.manifest.health.folder_error.clone_from(&self.last_error);
        }
        let file = MANIFEST.to_owned();
        json::pretty(&self.manifest).map_err(|error| Error::Encode { file, what: Untrusted::told(error) })
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        self.flush();
    }
}
