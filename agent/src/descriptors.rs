//! How many files this process may have open at once, and that enough of them stay free for what must be
//! opened later.
//!
//! The usual limit, 1,024, is there for programs that call select(2), which the agent does not; a program
//! that it starts may, and gets the limit back that this process had.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::OnceLock,
};

use aya::util::online_cpus;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{kernel::permission, loader::LoadError};

/// Two for each sampled thread, of which there are 4,096 at most unless somebody asks for more, and some for
/// each map, hook and CPU.
const WANTED: u64 = 16_384;
/// Kept free of what a program can make grow, for what no run can do without: the folder and its last form
/// (some 20), the export (8), /proc, programs that are met, a clock and a pulse of each CPU that comes.
const KEPT_FREE: u64 = 72;
/// Maps, programs and hooks of the kernel side take 80, the rest of the agent 20.
const KERNEL_SIDE: u64 = 110;
/// A clock and a pulse take two each.
const EACH_CPU: u64 = 4;
/// Without a kernel side: the folder, the export, programs a few at a time.
const ALONE: u64 = 56;
/// Programs that are with the agent at once, where nothing else needs the room.
const PLACES: u64 = 64;
const FEW_PLACES: u64 = 8;

static INHERITED: OnceLock<Limit> = OnceLock::new();

/// Soft and hard.
#[derive(Clone, Copy)]
pub(crate) struct Limit(u64, u64);

/// The limit is too low, and may not be raised.
#[derive(Debug, thiserror::Error)]
#[error("too few open files are allowed: {allowed}, and {needed} are needed")]
pub struct TooFew {
    allowed: u64,
    needed: u64,
}

/// What to do about it.
pub(crate) const HINT: &str = "raise the hard limit: `ulimit -n NUMBER` as root, `LimitNOFILE=NUMBER` in a unit of systemd's, `--ulimit nofile=NUMBER` \
     of a container";

/// Raises the soft limit as far as this process may, root beyond the hard one, and keeps in mind what it was.
pub(crate) fn raise() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= WANTED {
        return;
    }
    let is_raised = setrlimit(Resource::RLIMIT_NOFILE, WANTED, WANTED.max(hard)).is_ok()
        || setrlimit(Resource::RLIMIT_NOFILE, WANTED.min(hard), hard).is_ok();
    if is_raised {
        // The first call saw the inherited one.
        let _ = INHERITED.set(Limit(soft, hard));
    }
}

/// Whether a run without a kernel side can open all that it will have to.
///
/// # Errors
/// It cannot.
pub(crate) fn check() -> Result<(), TooFew> {
    check_for(ALONE)
}

/// The same with a kernel side, where there may be one.
///
/// # Errors
/// It cannot.
pub(crate) fn check_for_kernel_side() -> Result<(), LoadError> {
    if permission::missing_for_bpf().is_some() {
        return Ok(());
    }
    // Not those that this process may run on: each one of the machine gets a clock and a pulse.
    let cpus = online_cpus().map_or(1, |cpus| cpus.len() as u64);
    Ok(check_for(KERNEL_SIDE + EACH_CPU * cpus + KEPT_FREE)?)
}

fn check_for(needed: u64) -> Result<(), TooFew> {
    let Ok((allowed, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if left() >= needed { Ok(()) } else { Err(TooFew { allowed, needed: needed + allowed - left() }) }
}

/// How many more can be opened. Linux says from 6.2 on how many are; before, the kernel gives the lowest
/// number that is free, and as many are open if nothing below others was closed.
pub(crate) fn left() -> u64 {
    let Ok((allowed, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    let Ok(lowest) = lowest() else { return 0 };
    let open = open_files().unwrap_or(lowest.as_raw_fd() as u64);
    allowed.saturating_sub(open)
}

/// Files that this process has open, by the size that the kernel gives the list of them; none where it gives
/// none.
fn open_files() -> Option<u64> {
    let bytes = std::fs::metadata("/proc/self/fd").ok()?.len();
    (bytes > 0).then_some(bytes)
}

fn lowest() -> io::Result<OwnedFd> {
    // SAFETY: takes a path that is a C string.
    let opened = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Whether something may be opened that a program asks for, and as often as it likes.
pub(crate) fn are_free() -> bool {
    left() > KEPT_FREE
}

/// How many programs may be with the agent at once, which takes a descriptor each.
pub(crate) fn places() -> usize {
    (left().saturating_sub(KEPT_FREE) / 2).clamp(FEW_PLACES, PLACES) as usize
}

/// What this process began with; none if that is what it has.
pub(crate) fn inherited() -> Option<Limit> {
    INHERITED.get().copied()
}

impl Limit {
    /// Makes it this process's.
    pub(crate) fn set(self) -> nix::Result<()> {
        setrlimit(Resource::RLIMIT_NOFILE, self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A free number below others is no room for them.
    #[test]
    fn a_hole_is_not_taken_for_room() {
        if open_files().is_none() {
            return;
        }
        let mut held: Vec<OwnedFd> = (0..400).map(|_| lowest().expect("descriptors are free")).collect();
        let before = left();
        // The lowest of them.
        drop(held.remove(0));
        assert!(left() <= before + 100, "{} of {before}", left());
    }

    #[test]
    fn what_is_open_is_not_left() {
        let before = left();
        let held: Vec<OwnedFd> = (0..40).map(|_| lowest().expect("descriptors are free")).collect();
        // Other tests open and close files meanwhile.
        assert!(left() <= before.saturating_sub(20), "{} of {before}", left());
        drop(held);
    }
}
