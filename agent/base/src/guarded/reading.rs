//! Reading: no more than was asked for, from regular files alone, and never blocked by others.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::Path,
};

/// A part of a file, read at its own position: other users of the descriptor are not disturbed, and nothing
/// behind the end is read.
#[derive(Debug)]
pub struct Part {
    file: File,
    at: u64,
    end: u64,
}

impl Part {
    /// The bytes from `at` up to `end`.
    pub fn new(file: File, at: u64, end: u64) -> Self {
        Self { file, at, end }
    }

    /// End of the part.
    pub fn end(&self) -> u64 {
        self.end
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let read = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Content of a file of /proc, or the first `bytes` of it: a process may make its command line and its maps
/// as long as it likes.
///
/// # Errors
/// It cannot be read.
pub fn read_begin(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file at a path where others may have put anything. Its type is checked before opening: opening a
/// FIFO waits for its writer, or wakes and then breaks that writer, and opening a device may do anything.
/// Links on the way are followed.
///
/// # Errors
/// It is not a regular file, another process holds a lease on it, or it cannot be opened.
pub fn open_file(path: &Path) -> io::Result<File> {
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    open_found(&found)
}

/// The same without following a link at the last step: it is refused.
///
/// # Errors
/// As for [`open_file`].
pub fn open_no_link(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let found = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    open_found(&found)
}

/// Opens the file of a descriptor that was opened with `O_PATH`.
///
/// # Errors
/// As for [`open_file`].
pub fn open_found(found: &File) -> io::Result<File> {
    check(&found.metadata()?, None, u64::MAX)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(leased)
}

/// Text of a file that others may have put there, or the first `bytes` of it: a list made by the kernel has
/// no size beforehand. A link in its place is not followed.
///
/// # Errors
/// As for [`open_no_link`]; or it cannot be read, or is no text.
pub fn read_list(path: &Path, bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    open_no_link(path)?.take(bytes).read_to_string(&mut text)?;
    Ok(text)
}

/// Whole content of a file that the caller made and kept open, whatever others did to it.
///
/// # Errors
/// It cannot be read, or is larger than `bytes` now.
pub fn read_again(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    whole(file, None, bytes)
}

/// Whole content of an open file, if it passes [`check`].
pub(super) fn whole(file: &File, owners: Option<&[u32]>, bytes: u64) -> io::Result<Vec<u8>> {
    check(&file.metadata()?, owners, bytes)?;
    let mut content = Vec::new();
    // The file may grow while it is read.
    Part::new(file.try_clone()?, 0, bytes.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > bytes { Err(too_large(bytes)) } else { Ok(content) }
}

/// Checks that a file is regular, belongs to one of these owners, and has at most `bytes` bytes.
pub(super) fn check(found: &Metadata, owners: Option<&[u32]>, bytes: u64) -> io::Result<()> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    if !found.is_file() {
        return Err(refused("not a regular file"));
    }
    if owners.is_some_and(|owners| !owners.contains(&found.uid())) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    if found.len() > bytes { Err(too_large(bytes)) } else { Ok(()) }
}

fn too_large(bytes: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {bytes} bytes"))
}

/// The error of an open that would have to wait: the kernel would wait for the holder of a lease on the file.
pub(super) fn leased(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        return io::Error::new(io::ErrorKind::ResourceBusy, "another program holds a lease on it");
    }
    error
}
