//! Least privilege: once the probes are in place and the child is started, the agent drops what it no longer
//! needs.
//!
//! Four layers: which capabilities are left ([`capabilities`]), which system calls can still be made and
//! with what ([`filter`]), where files can still be changed ([`landlock`]), and that no other process reads
//! its memory, alive or as a core dump. No privilege is ever regained. docs/security.md explains what stays,
//! and why.

mod calls;
mod capabilities;
mod filter;
mod landlock;
mod layers;

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use self::{
    capabilities::{Work, become_nobody, drop_all, drop_unneeded, keep_signals},
    filter::{About, only_what_is_used},
    landlock::change_only_below,
    layers::{Layer, layers},
};

/// Called first of all: no core dump in the directory where the agent was started, and no debugger of another
/// user. A started program has neither limit: the kernel forgets the first at exec, and the second is the
/// agent's own.
///
/// # Errors
/// The kernel's error.
pub fn hide_memory() -> io::Result<()> {
    // SAFETY: takes no pointers.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Forbids core dumps by the limit as well, once the program has been started with its own.
///
/// # Errors
/// The kernel's error.
pub fn forbid_core_dumps() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, hard)?)
}
