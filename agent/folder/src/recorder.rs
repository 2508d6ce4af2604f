//! The flight recorder of an agent that stays: the last minutes in full detail, as run folders of some
//! seconds each (segments).
//!
//! Yields the segments, oldest first. Their tables stay Arrow streams: nothing is converted before somebody
//! asks. Segments that are older than asked for, or beyond the budget of bytes, are removed, oldest first;
//! one that is being read stays until its reader is done.

use std::{
    collections::VecDeque,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use guestscope_base::clock::ClockPair;

use super::{
    begin::CreateOptions,
    manifest::{self, HealthRecord, MANIFEST, Manifest, RowCounts},
    name::rfc3339,
    reader::Folder,
    run_folder::RunFolder,
    stream,
};

/// Most segments kept, whatever is asked for: each costs some 200 bytes here and a directory on disk.
const MOST_SEGMENTS: usize = 4096;
/// A segment ends early when it takes this part of all bytes, so that removing the oldest frees a small part.
const PART: u64 = 16;

/// What a recorder keeps, and where.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The directory that holds the segments, writable by this process's user alone.
    pub parent: PathBuf,
    /// Length of a segment.
    pub length: Duration,
    /// Age at which a segment is removed.
    pub keep: Duration,
    /// Most bytes on disk, the current segment included.
    pub most_bytes: u64,
}

/// A segment that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Begin and end, CLOCK_MONOTONIC of this boot, ns; both 0 for a segment of an earlier boot, and for one
    /// that cannot be read.
    span_ns: (u64, u64),
    /// End, wall time, ns since 1970.
    ended_ns: u64,
    rows: RowCounts,
}

impl Segment {
    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begin and end, CLOCK_MONOTONIC of this boot, ns; both 0 if it is of an earlier one.
    pub fn span_ns(&self) -> (u64, u64) {
        self.span_ns
    }

    /// Whether it holds any of this time, CLOCK_MONOTONIC, ns.
    pub fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        let (begin_ns, end_ns) = self.span_ns;
        begin_ns <= to_ns && end_ns >= from_ns && end_ns > 0
    }

    /// Time since its end, ns. Wall time may be set at any moment, by hours: it serves only where the boot is
    /// another, since monotonic times of two boots do not compare.
    fn age_ns(&self, now: ClockPair) -> u64 {
        match self.span_ns {
            (_, 0) => now.wall_ns.saturating_sub(self.ended_ns),
            (_, end_ns) => now.monotonic_ns.saturating_sub(end_ns),
        }
    }
}

/// The segments, and when the next one is due.
#[derive(Debug)]
pub struct Recorder {
    options: RecorderOptions,
    past: VecDeque<Arc<Segment>>,
    /// Begin of the current segment, CLOCK_MONOTONIC, ns.
    begun_ns: u64,
    lost: RowCounts,
    removed: RowCounts,
    last_error: Option<String>,
}

impl Recorder {
    /// Takes over what earlier agents left in the directory.
    pub fn new(options: RecorderOptions, current: &RunFolder, now: ClockPair) -> Self {
        let mut past = left_behind(&options.parent, current, now);
        // Those of earlier boots by wall time, then those of this boot by monotonic time.
        past.sort_by_key(|segment| (segment.span_ns.1, segment.span_ns.0, segment.ended_ns));
        let past = past.into_iter().map(Arc::new).collect();
        let (lost, removed) = (RowCounts::default(), RowCounts::default());
        Self { options, past, begun_ns: now.monotonic_ns, lost, removed, last_error: None }
    }

    /// Ends the current segment where that is due, and removes what is too old or too much. Call it every
    /// second.
    pub fn tick(&mut self, current: &mut RunFolder, now: ClockPair) {
        let age_ns = now.monotonic_ns.saturating_sub(self.begun_ns);
        let bytes = bytes_of(current.path());
        let is_large = bytes > self.options.most_bytes / PART;
        if is_large || u128::from(age_ns) >= self.options.length.as_nanos() {
            self.roll(current, now);
        } else {
            self.trim(bytes, now);
        }
    }

    /// Ends the current segment now. Returns whether it did: if the next one cannot be made, the current one
    /// goes on.
    pub fn roll(&mut self, current: &mut RunFolder, now: ClockPair) -> bool {
        let options = CreateOptions { parent: self.options.parent.clone(), owner: None };
        let mut before = match RunFolder::create(&options, next(current.manifest(), now)) {
            Ok(new) => std::mem::replace(current, new),
            Err(error) => {
                self.last_error = Some(error.to_string());
                self.trim(bytes_of(current.path()), now);
                return false;
            }
        };
        before.end();
        before.update_manifest(|manifest| {
            manifest.set_end(manifest::ClockPair { monotonic_ns: now.monotonic_ns, wall_ns: now.wall_ns });
        });
        let health = before.health();
        self.last_error = health.last_error.or_else(|| self.last_error.take());
        add(&mut self.lost, health.rows_lost);
        self.past.push_back(Arc::new(Segment {
            bytes: bytes_of(before.path()),
            path: before.path().to_owned(),
            span_ns: (self.begun_ns, now.monotonic_ns),
            ended_ns: now.wall_ns,
            rows: health.rows,
        }));
        self.begun_ns = now.monotonic_ns;
        self.trim(0, now);
        true
    }

    /// Removes the oldest segments while there are too many bytes, and those that are too old. `current` is
    /// the size of the segment that is being written, bytes.
    fn trim(&mut self, current: u64, now: ClockPair) {
        let keep_ns = u64::try_from(self.options.keep.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = self.bytes().saturating_add(current);
        let mut at = 0;
        while let Some(segment) = self.past.get(at) {
            let is_old = segment.age_ns(now) > keep_ns;
            let is_much = bytes > self.options.most_bytes;
            let is_many = self.past.len() >= MOST_SEGMENTS;
            // One that is being read goes later. Those behind it do not wait for it: an incident may take
            // long to make where CPUs are scarce.
            if Arc::strong_count(segment) > 1 || !(is_old || is_much || is_many) {
                at += 1;
                continue;
            }
            if let Err(error) = fs::remove_dir_all(&segment.path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                self.last_error = Some(format!("a segment cannot be removed: {error}"));
                at += 1;
                continue;
            }
            bytes = bytes.saturating_sub(segment.bytes);
            add(&mut self.removed, segment.rows);
            self.past.remove(at);
        }
    }

    /// Complete segments that hold any of this time, CLOCK_MONOTONIC, ns. They stay as long as one of the
    /// pointers lives.
    pub fn segments(&self, from_ns: u64, to_ns: u64) -> Vec<Arc<Segment>> {
        self.past.iter().filter(|segment| segment.overlaps(from_ns, to_ns)).cloned().collect()
    }

    /// Number of complete segments.
    pub fn count(&self) -> usize {
        self.past.len()
    }

    /// Their bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.past.iter().map(|segment| segment.bytes).sum()
    }

    /// Rows that were not written, those of the current segment included.
    pub fn rows_lost(&self, current: &RunFolder) -> RowCounts {
        let mut lost = self.lost;
        add(&mut lost, current.health().rows_lost);
        lost
    }

    /// Rows of the segments that were removed.
    pub const fn rows_removed(&self) -> RowCounts {
        self.removed
    }

    /// The last error, for people.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

/// The manifest of the segment after this one: what is true of the agent stays, what was seen begins anew.
fn next(before: &Manifest, now: ClockPair) -> Manifest {
    Manifest {
        start: rfc3339(now.wall_ns),
        end: String::new(),
        clocks: vec![manifest::ClockPair { monotonic_ns: now.monotonic_ns, wall_ns: now.wall_ns }],
        restored: Vec::new(),
        rows: RowCounts::default(),
        rows_lost: RowCounts::default(),
        health: HealthRecord { folder_error: None, ..before.health.clone() },
        ..before.clone()
    }
}

fn add(sum: &mut RowCounts, more: RowCounts) {
    sum.phases += more.phases;
    sum.threads += more.threads;
    sum.samples += more.samples;
    sum.marks += more.marks;
    sum.waits += more.waits;
    sum.gpu_work += more.gpu_work;
}

/// Bytes that a folder takes on disk.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// Segments of earlier agents. Directories that are none are left alone.
fn left_behind(parent: &Path, current: &RunFolder, now: ClockPair) -> Vec<Segment> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let others = directories.map(|entry| entry.path()).filter(|path| path != current.path());
    others.filter_map(|path| left_segment(path, current.manifest(), now)).take(MOST_SEGMENTS).collect()
}

/// A segment of an earlier agent. One that cannot be read takes room as any other and is of no use: it goes
/// with those of earlier boots. Its agent was killed before it wrote the manifest, or was a later one.
fn left_segment(path: PathBuf, current: &Manifest, now: ClockPair) -> Option<Segment> {
    let (bytes, ended_ns) = (bytes_of(&path), changed_ns(&path));
    let Ok(folder) = Folder::open(&path) else {
        let rows = RowCounts::default();
        return is_ours(&path).then_some(Segment { path, bytes, span_ns: (0, 0), ended_ns, rows });
    };
    let manifest = folder.manifest();
    let is_of_this_boot = !current.boot_id.is_empty() && manifest.boot_id == current.boot_id;
    let clocks = manifest.clocks.first().zip(manifest.clocks.last()).filter(|_| is_of_this_boot);
    let span_ns = clocks.map_or((0, 0), |(first, last)| {
        // The last pair is of the end, unless the agent was killed: then wall time alone says when.
        let changed_ns = now.monotonic_ns.saturating_sub(now.wall_ns.saturating_sub(ended_ns));
        let end_ns = if manifest.end.is_empty() { changed_ns } else { last.monotonic_ns };
        (first.monotonic_ns, end_ns.max(last.monotonic_ns))
    });
    Some(Segment { path, bytes, span_ns, ended_ns, rows: manifest.rows })
}

/// When a folder, or a file in it, was last changed: wall time, ns since 1970; 0 if that is unknown.
fn changed_ns(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let all = files.filter_map(|file| file.metadata().ok()).chain(fs::metadata(folder).ok());
    let changed = all.filter_map(|one| one.modified().ok()).max();
    let since_1970 = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    since_1970.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// Whether a directory that is no readable run folder is a recorder's: by its name, or by what is in it.
fn is_ours(path: &Path) -> bool {
    /// How each name begins, with zeros for digits; see [`super::name`].
    const BEGIN: &[u8] = b"0000-00-00T00-00-00-";
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let fits = |(begin, byte): (&u8, &u8)| if *begin == b'0' { byte.is_ascii_digit() } else { begin == byte };
    let is_named = name.len() > BEGIN.len() && BEGIN.iter().zip(name).all(fits);
    let mut files = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_table = |file: &Path| file.extension().is_some_and(|end| end == stream::EXTENSION);
    is_named || files.any(|file| file.ends_with(MANIFEST) || is_table(&file))
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
