//! The program under observation: found, started as the right user, adopted before its first instruction.
//!
//! Between fork and exec the child runs the program `adopt` on itself (BPF_PROG_TEST_RUN of a raw tracepoint
//! program happens in the caller's context), so nothing of it is missed and its number in any PID namespace
//! is not needed. Under sudo it becomes the invoking user afterwards. It watches nothing.

mod caller;
mod error;
mod marker;

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{fs::PermissionsExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command},
};

use nix::sys::signal::{SigSet, SigmaskHow};

pub use self::{
    caller::{RunAs, create_file},
    error::ChildError,
    marker::{is_linked, option_against_marks},
};

use crate::{descriptors, facts::on_self::run_on_self, untrusted::Shown as _};

/// The file that a command names, looked up in PATH as a shell would.
pub fn resolve(command: impl AsRef<OsStr>) -> Result<PathBuf, ChildError> {
    let command = command.as_ref();
    let text = || command.shown().to_string();
    let runnable = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if command.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match path.metadata() {
            Ok(_) if runnable(&path) => Ok(path),
            Ok(_) => Err(ChildError::NotRunnable {
                command: text(),
                source: io::ErrorKind::PermissionDenied.into(),
            }),
            Err(_) => Err(ChildError::NotFound(text())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(command))
        .find(|path| runnable(path))
        .ok_or_else(|| ChildError::NotFound(text()))
}

/// Starts the program; adopted if there is a kernel side to adopt it.
pub fn spawn(
    command: &[OsString],
    environment: &[(&str, OsString)],
    adopt: Option<BorrowedFd<'_>>,
    run_as: Option<&RunAs>,
) -> Result<Child, ChildError> {
    let (program, arguments) = command.split_first().ok_or_else(|| ChildError::NotFound(String::new()))?;
    let path = resolve(program)?;
    let mut start = Command::new(&path);
    start.arg0(program).args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let adopt = adopt.map(|program| program.as_raw_fd());
    let user = run_as.cloned();
    if let Some(user) = &user {
        start.envs(user.environment.iter().map(|(name, value)| (name, value)));
    }
    let limit = descriptors::inherited();
    let become_child = move || -> io::Result<()> {
        if let Some(adopt) = adopt {
            // SAFETY: the caller's descriptor, which stays open until the program has been started.
            run_on_self(unsafe { BorrowedFd::borrow_raw(adopt) }, &[])?;
        }
        // The agent blocks signals to read them from a descriptor; its child must not inherit that.
        SigSet::empty().thread_set_mask()?;
        limit.map_or(Ok(()), descriptors::Limit::set)?;
        if let Some(user) = &user {
            nix::unistd::setgroups(&user.groups)?;
            nix::unistd::setgid(user.gid)?;
            nix::unistd::setuid(user.uid)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, and no memory is allocated.
    unsafe { start.pre_exec(become_child) };
    start.spawn().map_err(|source| {
        let command = program.shown().to_string();
        // The file itself was found a moment ago.
        if source.kind() == io::ErrorKind::NotFound {
            return ChildError::NoInterpreter { command, source };
        }
        ChildError::NotRunnable { command, source }
    })
}

/// A descriptor that becomes readable when the child ends; the child still has to be waited for.
pub fn end_of(pid: u32) -> io::Result<OwnedFd> {
    crate::tasks::pidfd(pid).or_else(|_| waited_for(pid))
}

/// Without pidfd_open (gVisor): a thread that waits.
fn waited_for(pid: u32) -> io::Result<OwnedFd> {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        let flags = libc::WEXITED | libc::WNOWAIT;
        loop {
            // SAFETY: all zeros are a value of it.
            let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: the structure lives across the call.
            let waited = unsafe { libc::waitid(libc::P_PID, pid, &raw mut information, flags) };
            if waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        drop(write);
    })?;
    Ok(read)
}

/// Signals that are passed on to the child.
pub fn forwarded() -> SigSet {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2].into_iter().collect()
}

/// Blocks the forwarded signals in this thread and all that it starts, and SIGTTIN and SIGTTOU, by which a
/// terminal stops background processes: the program may become the foreground one, and the agent must still
/// write.
pub fn block_forwarded() -> io::Result<()> {
    use nix::sys::signal::Signal::{SIGTTIN, SIGTTOU};
    let of_terminals: SigSet = [SIGTTIN, SIGTTOU].into_iter().collect();
    let blocked = forwarded() | of_terminals;
    nix::sys::signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None).map_err(io::Error::from)
}
