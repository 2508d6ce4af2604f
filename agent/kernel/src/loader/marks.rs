//! The marker's probe in files that carry the marker: finding such files, and placing it there.
//!
//! The kernel puts a probe into every process that has the file mapped, and takes a lock of each. That may
//! block, so it is done by threads with a time limit ([`crate::patient`]), and needs only the program of the
//! loaded object.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::uprobe::{self, Spot};
use crate::{
    descriptors, guarded,
    probes::phase::{self, MarkerError},
};

/// Most files known to have no marker; when there are more, all are looked at again.
const MOST_OTHERS: usize = 8_192;
/// Most files that a probe is put into. Removing a probe takes the kernel 0.1 s (it waits until all CPUs have
/// gone on), also when it ends a killed agent, and a program may make any number of such files.
const MOST_MARKED: usize = 64;

/// Why a probe was not placed in a file.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The file cannot be looked at.
    #[error(transparent)]
    Look(#[from] io::Error),
    /// Its marker cannot be read.
    #[error(transparent)]
    Marker(#[from] MarkerError),
    /// No file descriptor is free.
    #[error("no more files may be open")]
    Descriptors,
    /// The limit of probed files is reached.
    #[error("{MOST_MARKED} files with the marker are probed already, and no more are")]
    TooMany,
    /// The kernel refused it.
    #[error("the kernel refused the probe: {0}")]
    Kernel(#[source] io::Error),
}

impl MarkError {
    /// Whether it is because of the agent, not because of a program's file.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Descriptors | Self::TooMany => true,
            Self::Kernel(error) => {
                matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EMFILE | libc::ENOMEM))
            }
            Self::Look(_) | Self::Marker(_) => false,
        }
    }
}

/// A file's device and inode, which stay its own as long as a probe is in it.
type Number = (u64, u64);

/// A file as long as it is unchanged. Its inode may be reused a moment later, for a file with another time of
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unchanged {
    number: Number,
    changed: (i64, i64),
    bytes: u64,
}

impl Unchanged {
    fn of(metadata: &Metadata) -> Self {
        let number = (metadata.dev(), metadata.ino());
        Self { number, changed: (metadata.ctime(), metadata.ctime_nsec()), bytes: metadata.size() }
    }
}

#[derive(Default)]
struct Files {
    marked: HashSet<Number>,
    /// The probes, removed with their descriptors.
    probes: Vec<OwnedFd>,
    unmarked: HashSet<Unchanged>,
}

/// Which files carry the marker, without a probe in any.
#[derive(Debug, Default)]
pub struct MarkedFiles(Mutex<HashMap<Unchanged, bool>>);

impl MarkedFiles {
    /// Whether a file carries the marker. `found` was opened with `O_PATH`.
    ///
    /// # Errors
    /// It cannot be read, or its marker is damaged.
    pub fn has(&self, found: &File) -> Result<bool, MarkError> {
        let metadata = found.metadata()?;
        let file = Unchanged::of(&metadata);
        let files = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !metadata.is_file() {
            return Ok(false);
        }
        if let Some(is_marked) = files().get(&file) {
            return Ok(*is_marked);
        }
        let is_marked = offset(found)?.is_some();
        let mut files = files();
        if files.len() >= MOST_OTHERS {
            files.clear();
        }
        files.insert(file, is_marked);
        Ok(is_marked)
    }
}

/// The offset of the marker in a file that was opened with `O_PATH`.
fn offset(found: &File) -> Result<Option<u64>, MarkerError> {
    let path = path(found);
    let file =
        guarded::open_found(found).map_err(|source| MarkerError::Read { path: path.clone(), source })?;
    phase::find_in(file, path.as_ref())
}

/// A path to a file that is open here.
fn path(found: &File) -> String {
    format!("/proc/self/fd/{}", found.as_raw_fd())
}

/// The probe, and the files with it.
pub struct Marks {
    program: OwnedFd,
    /// The kernel's type number of uprobes.
    kind: u32,
    files: Mutex<Files>,
}

impl Marks {
    /// The probe of a loaded program, in no file yet.
    ///
    /// # Errors
    /// The kernel has no such probes, or no descriptor is left.
    pub(super) fn new(program: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { program: program.try_clone_to_owned()?, kind: uprobe::kind()?, files: Mutex::default() })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of files that carry the marker.
    pub fn count(&self) -> usize {
        self.files().marked.len()
    }

    /// Puts the probe into a file that carries the marker and has none yet; whether it did. `found` was
    /// opened with `O_PATH`: that very file is read and probed.
    ///
    /// # Errors
    /// It cannot be read, its marker is damaged, or the kernel refuses the probe.
    pub fn attach(&self, found: &File) -> Result<bool, MarkError> {
        let metadata = found.metadata()?;
        let unmarked = Unchanged::of(&metadata);
        let is_known =
            |files: &Files| files.marked.contains(&unmarked.number) || files.unmarked.contains(&unmarked);
        if !metadata.is_file() || is_known(&self.files()) {
            return Ok(false);
        }
        let Some(offset) = offset(found)? else {
            let mut files = self.files();
            if files.unmarked.len() >= MOST_OTHERS {
                files.unmarked.clear();
            }
            files.unmarked.insert(unmarked);
            return Ok(false);
        };
        // A program may have mapped any number of files with the marker.
        if !descriptors::are_free() {
            return Err(MarkError::Descriptors);
        }
        {
            let mut files = self.files();
            if files.marked.len() >= MOST_MARKED {
                return Err(MarkError::TooMany);
            }
            // Another thread may be about to do the same.
            if !files.marked.insert(unmarked.number) {
                return Ok(false);
            }
        }
        let spot = Spot { offset, ..Spot::default() };
        match uprobe::open(self.kind, &path(found), spot, self.program.as_fd(), None) {
            Ok(probe) => {
                self.files().probes.push(probe);
                Ok(true)
            }
            Err(error) => {
                self.files().marked.remove(&unmarked.number);
                Err(MarkError::Kernel(error))
            }
        }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        uprobe::take_out(std::mem::take(&mut self.files().probes));
    }
}
