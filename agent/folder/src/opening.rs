//! Opens what lies in a run folder, and nothing else that has such a name.
//!
//! A folder may come from elsewhere: a FIFO blocks, a device never ends, a link leads out. Nothing waits.

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

/// A directory that is kept open: whatever is renamed meanwhile, all files come from the same one.
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

    /// When it was opened: reading all that is in it has one limit.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Its path, as it was named.
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

    /// A regular file in it, for reading. Nothing else is opened: opening alone may have effects on a device.
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

/// How much of its disk a file takes; a hole takes nothing.
pub(super) fn disk_bytes(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.blocks().saturating_mul(512).min(metadata.len()))
}

/// How many bytes of a file are no hole. Not by its blocks: some file systems say none, or say them later.
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
    // Where reading begins.
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
