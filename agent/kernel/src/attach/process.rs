//! One process by its ID: whether it exists, runs a program, and is still alive.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use super::TargetError;
use crate::{
    guarded, patient,
    tasks::{self, Stat},
    untrusted::{Shown as _, Untrusted},
};

/// Most bytes read of a command line: the longest single argument. A process may present all its memory as
/// its command line.
const COMMAND_BYTES: u64 = 128 << 10;

/// Time limit: a command line lies in the process's own memory, whose lock the process may hold.
const ANSWER: std::time::Duration = std::time::Duration::from_millis(500);

/// A process that was alive when it was opened. Its descriptor names it for good, even when its number is
/// reused later.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pidfd: OwnedFd,
}

/// Checks that the numbers in /proc are those that system calls take: not so in a new PID namespace with the
/// old /proc.
pub(super) fn check_proc() -> Result<(), TargetError> {
    let shown = std::fs::read_link("/proc/self").ok();
    let is_own = shown.is_some_and(|shown| shown.as_os_str() == std::process::id().to_string().as_str());
    if is_own { Ok(()) } else { Err(TargetError::ForeignProc) }
}

impl Process {
    /// The living process with this number, if it is no kernel thread.
    pub(super) fn open(pid: u32) -> Result<Self, TargetError> {
        if pid == std::process::id() {
            return Err(TargetError::Own(pid));
        }
        let started = started_soon(pid)?;
        let pidfd = tasks::pidfd(pid).map_err(|source| {
            let is_gone = source.raw_os_error() == Some(libc::ESRCH);
            if is_gone { TargetError::NoProcess(pid) } else { TargetError::Watch { pid, source } }
        })?;
        // The number may have been given to another process in between.
        if started_soon(pid)? != started {
            return Err(TargetError::NoProcess(pid));
        }
        Ok(Self { pid, pidfd })
    }

    /// Whether its last thread has not ended. The descriptor is readable from then on.
    pub(super) fn is_alive(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the structure lives across the call, which does not wait.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready != 1
    }

    /// Name in the kernel.
    pub(super) fn name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        let name: String = name.trim_end().chars().filter(|c| !crate::untrusted::is_unsafe(*c)).collect();
        if name.is_empty() { format!("pid-{}", self.pid) } else { name }
    }

    /// Program and arguments, for people.
    pub(super) fn command(&self) -> Vec<String> {
        let path = format!("/proc/{}/cmdline", self.pid);
        let read = move || guarded::read_begin(path.as_ref(), COMMAND_BYTES).unwrap_or_default();
        let bytes = patient::answer(ANSWER, read).unwrap_or_default();
        let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| Untrusted::of_bytes(word).stored().to_owned()).collect();
        if words.is_empty() { vec![self.name()] } else { words }
    }

    /// Path of its program's file, in the process's own mount namespace.
    pub(super) fn executable(&self) -> Option<String> {
        let path = format!("/proc/{}/exe", self.pid);
        let read = move || std::fs::read_link(path).ok();
        let file = patient::answer(ANSWER, read).ok()??;
        Some(file.shown().stored().to_owned())
    }
}

/// [`started`] with a time limit: a process that is executing a program can hold it up.
fn started_soon(pid: u32) -> Result<u64, TargetError> {
    let asked = patient::answer(ANSWER, move || started(pid));
    asked.unwrap_or_else(|no_answer| Err(TargetError::Watch { pid, source: io::Error::other(no_answer) }))
}

/// Start time, in clock ticks; an error if the process is not to be observed.
fn started(pid: u32) -> Result<u64, TargetError> {
    let gone = || TargetError::NoProcess(pid);
    let stat = Stat::read(pid.cast_signed()).map_err(|_| gone())?;
    if stat.is_kernels {
        return Err(TargetError::KernelThread(pid));
    }
    let place = format!("/proc/{pid}");
    let status = tasks::status(place.as_ref()).map_err(|_| gone())?;
    let group = tasks::field(&status, "Tgid").and_then(|group| group.parse().ok()).ok_or_else(gone)?;
    if group != pid {
        return Err(TargetError::Thread { thread: pid, process: group });
    }
    // A main thread that has ended before the others looks like a zombie.
    let threads = || std::fs::read_dir(format!("{place}/task")).into_iter().flatten().flatten();
    let lives_on = || threads().nth(1).is_some();
    if stat.has_ended() && !lives_on() {
        return Err(TargetError::Zombie(pid));
    }
    Ok(stat.born)
}
