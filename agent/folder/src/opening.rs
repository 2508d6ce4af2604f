//! Opens the directories and regular files of a run folder, and nothing else.
//!
//! A folder may come from an untrusted source: a FIFO blocks, a device never ends, a link leads out of it. No
//! call here blocks.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{Mode, SFlag, fstatat},
    unistd::{Whence, lseek},
};

/// A directory held open: even if it is renamed, all files come from the same one.
#[derive(Clone, Debug)]
pub(super) struct Place {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
    opened: Instant,
}

impl Place {
    /// Opens a directory. A person may name a link to one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        Ok(Self { descriptor: Arc::new(file.into()), path: path.to_owned(), opened: Instant::now() })
    }

    /// When it was opened: reading all of its files shares one time limit.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Path, as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A directory in it, which must not be a link.
    pub(super) fn directory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let descriptor = openat(&*self.descriptor, name, flags | OFlag::O_RDONLY, Mode::empty())?;
        Ok(Self { descriptor: Arc::new(descriptor), path: self.join(name), opened: self.opened })
    }

    /// Opens a regular file in it for reading, and nothing else: opening a device may have effects.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let found = fstatat(&*self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let kind = SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits());
        if kind != SFlag::S_IFREG {
            return Err(not_a_file(kind));
        }
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let opened = openat(&*self.descriptor, name, flags | OFlag::O_RDONLY, Mode::empty());
        let file = match opened {
            Ok(descriptor) => File::from(descriptor),
            // Somebody has put a link there since.
            Err(Errno::ELOOP) => return Err(not_a_file(SFlag::S_IFLNK)),
            Err(error) => return Err(error.into()),
        };
        let kind = file.metadata()?.file_type();
        if kind.is_file() {
            Ok(file)
        } else {
            Err(not_a_file(if kind.is_fifo() { SFlag::S_IFIFO } else { SFlag::S_IFCHR }))
        }
    }
}

/// Bytes on the disk; a hole takes none.
pub(super) fn disk_bytes(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.blocks().saturating_mul(512).min(metadata.len()))
}

/// Bytes of a file outside of holes. Not from its block count: some file systems report none, or late.
pub(super) fn held_bytes(file: &File) -> u64 {
    /// Pieces that are looked at: a hostile file may be nothing but holes between them.
    const MOST_PIECES: u32 = 10_000;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let seek = |at: u64, whence| lseek(file, i64::try_from(at).unwrap_or(i64::MAX), whence);
    let (mut held, mut at) = (0, 0);
    for _ in 0..MOST_PIECES {
        let begin = match seek(at, Whence::SeekData) {
            Ok(begin) => begin.cast_unsigned(),
            // Nothing but a hole follows.
            Err(Errno::ENXIO) => break,
            // A file system without holes.
            Err(_) => return length,
        };
        let end = seek(begin, Whence::SeekHole).map_or(length, i64::cast_unsigned);
        held += end.saturating_sub(begin);
        at = end;
        if end >= length {
            break;
        }
    }
    // Restores the start position for reading.
    let _ = seek(0, Whence::SeekSet);
    held
}

fn not_a_file(kind: SFlag) -> io::Error {
    let what = match kind {
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFLNK => "a link",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFBLK | SFlag::S_IFCHR => "a device",
        _ => "something else",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("not a regular file: {what}"))
}
