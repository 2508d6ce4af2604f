//! The limit on open files of this process, and a reserve for files that must be opened later.
//!
//! The usual limit, 1,024, exists for programs that call select(2). The agent does not; a program that it
//! starts may, and so gets back the limit that this process had.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::OnceLock,
};

use aya::util::online_cpus;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use guestscope_base::Hint;

use crate::facts::permission;

/// Two for each sampled thread, of which there are 4,096 at most by default, and some for each map, hook and
/// CPU.
const WANTED: u64 = 16_384;
/// Descriptors kept free from what a program can make grow, for what every run needs: the folder and its last
/// form (some 20), the export (8), /proc, connecting programs, a clock and a pulse of each CPU that comes
/// online.
const KEPT_FREE: u64 = 72;
/// Maps, programs and hooks of the kernel side take 80, the rest of the agent 20.
const KERNEL_SIDE: u64 = 110;
/// A clock and a pulse take two each.
const EACH_CPU: u64 = 4;
/// Without a kernel side: the folder, the export, programs a few at a time.
const ALONE: u64 = 56;
/// Programs connected to the agent at the same time, if nothing else needs the descriptors.
const PLACES: u64 = 64;
const FEW_PLACES: u64 = 8;

static INHERITED: OnceLock<Limit> = OnceLock::new();

/// A limit on open files: soft and hard.
#[derive(Clone, Copy)]
pub struct Limit(u64, u64);

/// The limit is too low, and may not be raised.
#[derive(Debug, thiserror::Error)]
#[error("too few open files are allowed: {allowed}, and {needed} are needed")]
pub struct TooFew {
    allowed: u64,
    needed: u64,
}

impl Hint for TooFew {
    fn hint(&self) -> Option<String> {
        Some(HINT.to_owned())
    }
}

/// What to do about too few open files.
pub const HINT: &str = "raise the hard limit: `ulimit -n NUMBER` as root, `LimitNOFILE=NUMBER` in a unit of systemd's, `--ulimit nofile=NUMBER` \
     of a container";

/// Raises the soft limit as far as this process may, root beyond the hard one, and keeps in mind what it was.
pub fn raise() {
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

/// Checks that a run without a kernel side can open all the files it will need.
///
/// # Errors
/// It cannot.
pub fn check() -> Result<(), TooFew> {
    check_for(ALONE)
}

/// The same for a run with a kernel side, where one can be loaded.
///
/// # Errors
/// It cannot.
pub fn check_for_kernel_side() -> Result<(), TooFew> {
    if permission::missing_for_bpf().is_some() {
        return Ok(());
    }
    // Not the CPUs that this process may run on: each online CPU gets a clock and a pulse.
    let cpus = online_cpus().map_or(1, |cpus| cpus.len() as u64);
    check_for(KERNEL_SIDE + EACH_CPU * cpus + KEPT_FREE)
}

fn check_for(needed: u64) -> Result<(), TooFew> {
    let Ok((allowed, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if left() >= needed { Ok(()) } else { Err(TooFew { allowed, needed: needed + allowed - left() }) }
}

/// Number of files that can still be opened. Linux 6.2 and later report how many are open; before, the lowest
/// free descriptor stands for that number, which is right if no lower one was closed.
pub(crate) fn left() -> u64 {
    let Ok((allowed, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    let Ok(lowest) = lowest() else { return 0 };
    let open = open_files().unwrap_or(lowest.as_raw_fd() as u64);
    allowed.saturating_sub(open)
}

/// Files that this process has open, by the size of /proc/self/fd; none where the kernel gives no size.
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
    // SAFETY: the call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Whether a program may cause another file to be opened: it can ask any number of times.
pub fn are_free() -> bool {
    left() > KEPT_FREE
}

/// Maximum number of programs connected to the agent at the same time: each takes a descriptor.
pub fn places() -> usize {
    (left().saturating_sub(KEPT_FREE) / 2).clamp(FEW_PLACES, PLACES) as usize
}

/// The limit with which this process began; none if it is unchanged.
pub fn inherited() -> Option<Limit> {
    INHERITED.get().copied()
}

impl Limit {
    /// Sets this limit for this process.
    pub fn set(self) -> nix::Result<()> {
        setrlimit(Resource::RLIMIT_NOFILE, self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Both tests open many files and count what is left.
    static ALONE: Mutex<()> = Mutex::new(());

    /// A free number below others does not count as room for those.
    #[test]
    fn a_hole_is_not_taken_for_room() {
        if open_files().is_none() {
            return;
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held: Vec<OwnedFd> = (0..400).map(|_| lowest().expect("descriptors are free")).collect();
        let before = left();
        // The lowest number of them.
        drop(held.remove(0));
        assert!(left() <= before + 100, "{} of {before}", left());
    }

    #[test]
    fn what_is_open_is_not_left() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = left();
        let held: Vec<OwnedFd> = (0..40).map(|_| lowest().expect("descriptors are free")).collect();
        // Other tests open and close files at the same time.
        assert!(left() <= before.saturating_sub(20), "{} of {before}", left());
        drop(held);
    }
}
