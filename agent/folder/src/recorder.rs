//! The flight recorder of an agent that stays: the last minutes in full detail, as run folders of some
//! seconds each (segments).
//!
//! Yields the segments, oldest first. Their tables stay Arrow streams: nothing is converted before somebody
//! asks. Segments that are older than asked for, or beyond the budget of bytes, are removed, oldest first;
//! one that is being read stays until its reader is done.

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use guestscope_base::clock::ClockPair;

use super::{
    begin::CreateOptions,
    manifest::{self, HealthRecord, Manifest, RowCounts},
    name::rfc3339,
    reader::Folder,
    run_folder::RunFolder,
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
    /// Begin and end, CLOCK_MONOTONIC of this boot, ns; both 0 for a segment of an earlier boot.
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

    /// Whether it holds any of this time, CLOCK_MONOTONIC, ns.
    pub fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        let (begin_ns, end_ns) = self.span_ns;
        begin_ns <= to_ns && end_ns >= from_ns && end_ns > 0
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
        past.sort_by_key(|segment| segment.ended_ns);
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

    /// Ends the current segment now. If the next one cannot be made, the current one goes on.
    pub fn roll(&mut self, current: &mut RunFolder, now: ClockPair) {
        let options = CreateOptions { parent: self.options.parent.clone(), owner: None };
        let mut before = match RunFolder::create(&options, next(current.manifest(), now)) {
            Ok(new) => std::mem::replace(current, new),
            Err(error) => {
                self.last_error = Some(error.to_string());
                return self.trim(bytes_of(current.path()), now);
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
    }

    /// Removes the oldest segments while there are too many bytes, or they are too old. `current` is the size
    /// of the segment that is being written, bytes.
    fn trim(&mut self, current: u64, now: ClockPair) {
        let keep_ns = u64::try_from(self.options.keep.as_nanos()).unwrap_or(u64::MAX);
        while let Some(oldest) = self.past.front() {
            let is_old = now.wall_ns.saturating_sub(oldest.ended_ns) > keep_ns;
            let is_much = self.bytes().saturating_add(current) > self.options.most_bytes;
            let is_many = self.past.len() >= MOST_SEGMENTS;
            // One that is being read goes later.
            if Arc::strong_count(oldest) > 1 || !(is_old || is_much || is_many) {
                break;
            }
            if let Err(error) = fs::remove_dir_all(&oldest.path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                self.last_error = Some(format!("a segment cannot be removed: {error}"));
                break;
            }
            add(&mut self.removed, oldest.rows);
            self.past.pop_front();
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

fn left_segment(path: PathBuf, current: &Manifest, now: ClockPair) -> Option<Segment> {
    let folder = Folder::open(&path).ok()?;
    let files = fs::read_dir(&path).ok()?.flatten();
    let changed = files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()?;
    let since_1970 = changed.duration_since(std::time::UNIX_EPOCH).ok()?;
    let ended_ns = u64::try_from(since_1970.as_nanos()).ok()?;
    let is_of_this_boot = !current.boot_id.is_empty() && folder.manifest().boot_id == current.boot_id;
    let begun_ns = folder.manifest().clocks.first()?.monotonic_ns;
    let end_ns = now.monotonic_ns.saturating_sub(now.wall_ns.saturating_sub(ended_ns));
    let span_ns = if is_of_this_boot { (begun_ns, end_ns.max(begun_ns)) } else { (0, 0) };
    let rows = folder.manifest().rows;
    Some(Segment { bytes: bytes_of(&path), path, span_ns, ended_ns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(seconds: u64) -> ClockPair {
        ClockPair { monotonic_ns: seconds * S, wall_ns: (1_000_000 + seconds) * S }
    }

    fn folder(parent: &Path) -> RunFolder {
        let start = manifest::ClockPair { monotonic_ns: 0, wall_ns: 1_000_000 * S };
        let manifest = Manifest { boot_id: "boot".to_owned(), ..Manifest::new([7; 16], "watch", start) };
        RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest)
            .expect("a folder can be made")
    }

    fn options(parent: &Path) -> RecorderOptions {
        let (length, keep) = (Duration::from_secs(10), Duration::from_mins(1));
        RecorderOptions { parent: parent.to_owned(), length, keep, most_bytes: 1 << 30 }
    }

    fn directories(parent: &Path) -> usize {
        fs::read_dir(parent).expect("it is there").count()
    }

    #[test]
    fn segments_come_and_go() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let mut current = folder(place.path());
        let mut recorder = Recorder::new(options(place.path()), &current, at(0));
        for second in 0..=300 {
            recorder.tick(&mut current, at(second));
        }
        // The last minute, and the current one.
        assert_eq!((recorder.count(), directories(place.path())), (7, 8));
        let spans: Vec<_> = recorder.segments(255 * S, 265 * S).iter().map(|one| one.span_ns).collect();
        assert_eq!(spans, [(250 * S, 260 * S), (260 * S, 270 * S)]);
        assert!(recorder.last_error().is_none());
    }

    #[test]
    fn a_segment_that_is_read_stays() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let mut current = folder(place.path());
        let mut recorder = Recorder::new(options(place.path()), &current, at(0));
        recorder.tick(&mut current, at(10));
        let read = recorder.segments(0, S);
        assert_eq!(read.len(), 1);
        for second in 11..=200 {
            recorder.tick(&mut current, at(second));
        }
        assert!(Folder::open(read[0].path()).is_ok());
        drop(read);
        recorder.tick(&mut current, at(201));
        assert!(recorder.segments(0, S).is_empty());
    }

    #[test]
    fn bytes_are_bounded() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let mut current = folder(place.path());
        let one = bytes_of(current.path());
        let most_bytes = one * 20;
        let mut recorder =
            Recorder::new(RecorderOptions { most_bytes, ..options(place.path()) }, &current, at(0));
        for second in 0..100 {
            recorder.roll(&mut current, at(second));
            assert!(recorder.bytes() <= most_bytes, "{second}");
        }
        assert!(recorder.count() >= 10);
    }

    #[test]
    fn what_an_earlier_agent_left_is_found_by_the_next_and_foreign_folders_stay() {
        let place = tempfile::tempdir().expect("a folder can be made");
        fs::create_dir(place.path().join("notes")).expect("the place is ours");
        let mut before = folder(place.path());
        before.end();
        drop(before);
        let mut current = folder(place.path());
        let wall_ns =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map(|t| t.as_nanos());
        let now_ns = u64::try_from(wall_ns.expect("it is later")).expect("not that late");
        let now = ClockPair { monotonic_ns: 50 * S, wall_ns: now_ns };
        let mut recorder = Recorder::new(options(place.path()), &current, now);
        assert_eq!(recorder.segments(0, 60 * S).len(), 1, "of this boot");
        let later = ClockPair { monotonic_ns: 500 * S, wall_ns: now_ns + 450 * S };
        recorder.tick(&mut current, later);
        assert_eq!(recorder.segments(0, 49 * S).len(), 0);
        assert!(place.path().join("notes").exists());
    }
}
