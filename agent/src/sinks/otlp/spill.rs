//! A file of lines that is written at its end and read from its begin: what could not be sent yet.
//!
//! It is made when first needed, holds at most so many bytes, is cut back to nothing when all has been read, and at the
//! end keeps what has not been read, and only that. It does not sync: the run folder holds the same phases as rows, so
//! that a power cut loses no more than the way by which they reach the collector.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// What is said of spans where there is no folder to keep them in.
pub(super) const NO_FOLDER: &str = "no run folder to keep spans in";

/// Why a line was not taken.
#[derive(Debug, Error)]
pub(super) enum SpillError {
    /// There is no folder to write to.
    #[error("{NO_FOLDER}")]
    NoFolder,
    /// The bound is reached.
    #[error("{path} is full at {bytes} bytes", path = path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// Its bound.
        bytes: u64,
    },
    /// The disk does not take it.
    #[error("cannot use {path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// A line that lies in the file.
#[derive(Clone, Copy, Debug)]
struct Line {
    bytes: u64,
    spans: u64,
}

/// The file.
pub(super) struct Spill {
    path: Option<PathBuf>,
    bound_bytes: u64,
    file: Option<File>,
    /// Offset of the first line not yet read.
    read: u64,
    /// Offset behind the last line.
    written: u64,
    lines: VecDeque<Line>,
}

impl Spill {
    /// `name` in `folder`, of at most `bound_bytes`. Nothing is created before the first line.
    pub(super) fn new(folder: Option<&Path>, name: &str, bound_bytes: u64) -> Self {
        let path = folder.map(|folder| folder.join(name));
        Self { path, bound_bytes, file: None, read: 0, written: 0, lines: VecDeque::new() }
    }

    /// Nothing waits to be read.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds a line that holds so many spans.
    pub(super) fn push(&mut self, line: &[u8], spans: u64) -> Result<(), SpillError> {
        let bytes = line.len() as u64;
        if self.written + bytes > self.bound_bytes && self.read > self.bound_bytes / 2 {
            self.compact()?;
        }
        if self.written + bytes > self.bound_bytes {
            let path = self.path.clone().ok_or(SpillError::NoFolder)?;
            return Err(SpillError::Full { path, bytes: self.bound_bytes });
        }
        let written = self.written;
        let file = self.open()?;
        if let Err(error) = file.write_all_at(line, written) {
            // A line in part would spoil the file for other readers. If even this fails, the next line overwrites it.
            let _ = file.set_len(written);
            return Err(self.io(error));
        }
        self.written += bytes;
        self.lines.push_back(Line { bytes, spans });
        Ok(())
    }

    /// The oldest line, which stays in the file until [`Spill::pop`], with the number of its spans.
    pub(super) fn front(&mut self) -> Option<(u64, Result<Vec<u8>, SpillError>)> {
        let Line { bytes, spans } = *self.lines.front()?;
        let mut line = vec![0; bytes as usize];
        let read = self.read;
        let outcome = match self.open().map(|file| file.read_exact_at(&mut line, read)) {
            Ok(Ok(())) => Ok(line),
            Ok(Err(error)) => Err(self.io(error)),
            Err(error) => Err(error),
        };
        Some((spans, outcome))
    }

    /// Leaves the oldest line behind.
    pub(super) fn pop(&mut self) {
        let Some(line) = self.lines.pop_front() else { return };
        self.read += line.bytes;
        if self.lines.is_empty()
            && let Some(file) = &self.file
            && file.set_len(0).is_ok()
        {
            (self.read, self.written) = (0, 0);
        }
    }

    /// Keeps what was not read and removes the rest: the whole file, if nothing is left.
    pub(super) fn close(&mut self) -> Result<(), SpillError> {
        let (Some(path), true) = (&self.path, self.file.is_some()) else { return Ok(()) };
        if self.lines.is_empty() {
            let outcome = fs::remove_file(path);
            self.file = None;
            return outcome.map_err(|error| self.io(error));
        }
        if self.read > 0 { self.compact() } else { Ok(()) }
    }

    fn open(&mut self) -> Result<&File, SpillError> {
        let path = self.path.as_ref().ok_or(SpillError::NoFolder)?;
        let file = match self.file.take() {
            Some(file) => file,
            // A file that is there already belongs to another run: it is not ours to overwrite.
            None => create(path).map_err(|error| SpillError::Io { path: path.clone(), error })?,
        };
        Ok(self.file.insert(file))
    }

    /// Copies what was not read into a new file, which takes the place of the old one in one step.
    fn compact(&mut self) -> Result<(), SpillError> {
        let Some(path) = self.path.clone() else { return Err(SpillError::NoFolder) };
        let fresh = path.with_extension("jsonl.new");
        let copy = || -> io::Result<File> {
            let mut old = File::open(&path)?;
            io::Seek::seek(&mut old, io::SeekFrom::Start(self.read))?;
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut new = create(&fresh)?;
            io::copy(&mut io::Read::take(old, self.written - self.read), &mut new)?;
            fs::rename(&fresh, &path)?;
            Ok(new)
        };
        match copy() {
            Ok(file) => {
                self.file = Some(file);
                self.written -= self.read;
                self.read = 0;
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&fresh);
                Err(self.io(error))
            }
        }
    }

    fn io(&self, error: io::Error) -> SpillError {
        SpillError::Io { path: self.path.clone().unwrap_or_default(), error }
    }
}

/// Makes a file that nobody else may read, and that belongs to whom its folder belongs to: the agent is root, the folder
/// perhaps the invoking user's. A link that waits there is not followed.
fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let folder = path.parent().map(fs::metadata).transpose()?;
    if let Some(folder) = folder.filter(|_| nix::unistd::geteuid().is_root()) {
        std::os::unix::fs::fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(file)
}
