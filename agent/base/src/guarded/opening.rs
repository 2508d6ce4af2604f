//! Opening files below a directory that is held open: no link is followed, and nothing above it is reached.
//!
//! openat2(2) ensures it (5.6 and later). Where the kernel or a seccomp filter lacks it, each step is opened
//! by itself.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2},
    sys::stat::Mode,
};

/// Attempts, since the kernel returns EAGAIN when something was renamed during the call and it cannot tell
/// whether the path left the directory. It returns EAGAIN as well for a file with a lease.
const ATTEMPTS: u32 = 32;

/// Opens `path` below `directory`. Never takes a controlling terminal; the descriptor is closed on exec.
pub(super) fn open(directory: impl AsFd, path: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    let directory = directory.as_fd();
    // An O_PATH open takes no terminal, and openat2 refuses flags without effect.
    let no_terminal = if flags.contains(OFlag::O_PATH) { OFlag::empty() } else { OFlag::O_NOCTTY };
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | no_terminal;
    match at_once(directory, path, flags, mode) {
        // Kernels return ENOSYS, filters EPERM; a file may give EPERM as well.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(step_by_step(directory, path, flags, mode)?),
        opened => Ok(opened?),
    }
}

fn at_once(directory: BorrowedFd<'_>, path: &Path, flags: OFlag, mode: Mode) -> nix::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = OpenHow::new().flags(flags).mode(mode).resolve(resolve);
    let mut opened = Err(Errno::EAGAIN);
    for _ in 0..ATTEMPTS {
        opened = openat2(directory, path, how);
        if !matches!(opened, Err(Errno::EAGAIN)) {
            break;
        }
    }
    opened
}

pub(super) fn step_by_step(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlag,
    mode: Mode,
) -> nix::Result<OwnedFd> {
    let on_the_way = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_PATH;
    let mut held: Option<OwnedFd> = None;
    let mut steps = path.components().filter(|step| !matches!(step, Component::CurDir)).peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else { return Err(Errno::EXDEV) };
        let here = held.as_ref().map_or(directory, AsFd::as_fd);
        if steps.peek().is_none() {
            return openat(here, name, flags, mode);
        }
        held = Some(openat(here, name, on_the_way, Mode::empty())?);
    }
    // The directory itself.
    openat(directory, ".", flags, mode)
}
