//! Makes one directory below an open one.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::Path,
};

use nix::{
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

use super::{opening, owner};

/// Makes a directory and opens it.
pub(super) fn make(above: impl AsFd, name: &Path, mode: Mode) -> io::Result<OwnedFd> {
    mkdirat(&above, name, mode)?;
    let opened = opening::open(&above, name, OFlag::O_DIRECTORY, Mode::empty())?;
    if !is_ours(&opened)? || !is_empty(&opened)? {
        let swapped = "another directory was put in its place while it was made";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, swapped));
    }
    Ok(opened)
}

/// Whether it belongs to the user of this thread's files. Some file systems give everything one owner, new
/// files too.
fn is_ours(directory: &OwnedFd) -> io::Result<bool> {
    const PROBE: &str = ".guestscope-probe";
    let owner = fstat(directory)?.st_uid;
    if owner == owner::file_user() {
        return Ok(true);
    }
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
    let probe = opening::open(directory, Path::new(PROBE), flags, Mode::S_IRUSR)?;
    let made_for = fstat(&probe)?.st_uid;
    unlinkat(directory, PROBE, UnlinkatFlags::NoRemoveDir)?;
    Ok(made_for == owner)
}

/// Whether it has no entries.
fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    /// Offset of the name in the kernel's entry (`linux_dirent64`); the entry's length stands before it.
    const NAME: usize = 19;
    const LENGTH: usize = 16;
    let opened =
        openat(directory, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut entries = [0_u8; 1024];
    loop {
        // SAFETY: the buffer lives across the call, which writes at most as many bytes as its argument
        // allows.
        let read = unsafe {
            libc::syscall(libc::SYS_getdents64, opened.as_raw_fd(), entries.as_mut_ptr(), entries.len())
        };
        let mut left = match usize::try_from(read) {
            Ok(read) => &entries[..read.min(entries.len())],
            Err(_) => return Err(io::Error::last_os_error()),
        };
        if left.is_empty() {
            return Ok(true);
        }
        while let Some(name) = left.get(NAME..) {
            if !name.starts_with(b".\0") && !name.starts_with(b"..\0") {
                return Ok(false);
            }
            let length = usize::from(u16::from_ne_bytes([left[LENGTH], left[LENGTH + 1]]));
            left = left.get(length.max(1)..).unwrap_or_default();
        }
    }
}
