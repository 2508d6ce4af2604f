//! Ties between the NVML process and the agent, its parent: the kernel's signal when the agent's end of a
//! pipe is closed, and the output pipe. Also keeps other processes from tracing this one.
//!
//! Yields whether the output still has a reader. It does not compare `getppid` with 1: an agent that is the
//! first process of its container has that ID and is alive.

use std::io;

use crate::clock;

/// From asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;

/// The kernel kills this process when the agent ends or closes its end, even during a driver call that hangs,
/// and the process can never gain privileges or be inspected. The signal at a parent's death alone is not
/// enough: the kernel sends it in the parent's name, and an agent without CAP_KILL may not signal another
/// user's process. A pipe's signal is sent in this process's own name.
pub(crate) fn tie() -> io::Result<()> {
    let set = |option, value: libc::c_ulong| {
        // SAFETY: both options take one number and touch no memory; the kernel wants the other arguments to
        // be zero.
        let code =
            unsafe { libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the text lives forever and ends with a zero. Without a name, a program started from memory is
    // called by the number of its descriptor; a failure does no harm.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"guestscope-nvml".as_ptr()) };
    set(libc::PR_SET_PDEATHSIG, libc::c_ulong::from(libc::SIGKILL.unsigned_abs()))?;
    set(libc::PR_SET_DUMPABLE, 0)?;
    set(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    die_with_stdin()
}

/// The kernel signals every event of the pipe. Nothing is ever written to it, so an event means that its
/// other end is closed. If started by hand, with a terminal or a file there, this does nothing.
fn die_with_stdin() -> io::Result<()> {
    // SAFETY: all zeros are a valid `stat`, and it lives across the call.
    let is_pipe = unsafe {
        let mut file: libc::stat = std::mem::zeroed();
        libc::fstat(libc::STDIN_FILENO, &raw mut file) == 0 && file.st_mode & libc::S_IFMT == libc::S_IFIFO
    };
    if !is_pipe {
        return Ok(());
    }
    let set = |command, value: libc::c_int| {
        // SAFETY: these commands take one number and touch no memory.
        let code = unsafe { libc::fcntl(libc::STDIN_FILENO, command, value) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    set(libc::F_SETOWN, std::process::id().cast_signed())?;
    set(F_SETSIG, libc::SIGKILL)?;
    set(libc::F_SETFL, libc::O_ASYNC)?;
    // The pipe may have been closed before.
    let mut watched = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is given, which lives across the call.
    let told = unsafe { libc::poll(&raw mut watched, 1, 0) };
    if told == 0 { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Whether standard output still has a reader. Asked once after [`tie`], this closes its gap: a parent that
/// died before the signal was requested has left a pipe without a reader.
pub(crate) fn reads() -> bool {
    reads_until(0)
}

/// Waits until that time of CLOCK_MONOTONIC; false, at once, when standard output has no reader any more. So
/// a closed pipe ends the process immediately, not at its next line, which may be an hour away.
pub(crate) fn reads_until(deadline_ns: u64) -> bool {
    loop {
        let left_ns = deadline_ns.saturating_sub(clock::now_ns());
        let timeout = clock::timespec(left_ns);
        // Without requested events only errors are reported: for a pipe, that the reader's end was closed.
        let mut watched = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
        // SAFETY: one structure is given and both live across the call; a null mask leaves the signals as
        // they are.
        let told = unsafe { libc::ppoll(&raw mut watched, 1, &raw const timeout, std::ptr::null()) };
        if told > 0 {
            return false;
        }
        // A signal that stops and continues the process, say a debugger's, is no reason to read early.
        if left_ns == 0 {
            return true;
        }
    }
}
