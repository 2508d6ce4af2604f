//! Least privilege: once the probes are in place and the child is started, the agent gives up what it needs no more.
//!
//! Three walls, one behind the other: which capabilities are left ([`capabilities`]), which system calls can still be made and
//! with what ([`filter`]), and that nobody reads its memory, alive or as a core dump. Nothing is ever gained.
//! What stays, and why, is told in docs/security.md as well.

mod calls;
mod capabilities;
mod filter;

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use self::{
    capabilities::{Work, become_nobody, drop_all, drop_unneeded, keep_signals},
    filter::{About, only_what_is_used},
};

/// From the first moment on: no core dump wherever the agent was started, and no debugger of another user. A program that is
/// started has neither limit, since the kernel forgets the first at exec and the second is the agent's own.
///
/// # Errors
/// The kernel's.
pub fn hide_memory() -> io::Result<()> {
    // SAFETY: takes no pointers.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The same by the limit, once the program has been started with its own.
///
/// # Errors
/// The kernel's.
pub fn forbid_core_dumps() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, hard)?)
}
