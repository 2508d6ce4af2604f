//! Why there is no target to attach to, and the next action.

use std::{collections::BTreeSet, fmt};

use guestscope_base::Hint;

/// A container that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The engine's number, or the name of a container without one.
    pub id: String,
    /// Container name, if it has one.
    pub name: Option<String>,
    /// The user who owns it.
    pub owner: u32,
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An engine's number is long, and its first digits are what engines show.
        let short: String = self.id.chars().take(if self.id.len() == 64 { 12 } else { 64 }).collect();
        match self.name.as_ref().filter(|name| **name != self.id) {
            Some(name) => write!(formatter, "{name} ({short})")?,
            None => formatter.write_str(&short)?,
        }
        if self.owner != 0 {
            write!(formatter, " of user {}", self.owner)?;
        }
        Ok(())
    }
}

/// Why a target was not found.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No process, group or container was given.
    #[error("nothing to attach to")]
    Nothing,
    /// The numbers in /proc are not those that system calls take.
    #[error("/proc shows another PID namespace than this process is in")]
    ForeignProc,
    /// No process has this ID.
    #[error("no such process: {0}")]
    NoProcess(u32),
    /// The number is a thread's.
    #[error("not a process but a thread of one: {thread}")]
    Thread {
        /// The thread's number.
        thread: u32,
        /// Number of its process.
        process: u32,
    },
    /// The process has no program.
    #[error("a thread of the kernel has no program to observe: {0}")]
    KernelThread(u32),
    /// A zombie: only its exit code is left.
    #[error("the process has ended and waits for its parent: {0}")]
    Zombie(u32),
    /// An agent cannot observe itself.
    #[error("the process is this agent itself: {0}")]
    Own(u32),
    /// A process cannot be watched.
    #[error("watching process {pid}: {source}")]
    Watch {
        /// Process number.
        pid: u32,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// No group has this path.
    #[error("no such control group: {0}")]
    NoGroup(String),
    /// Nothing lives in the group.
    #[error("no process to observe in it: {0}")]
    Empty(String),
    /// No container has this name.
    #[error("no such container: {wanted}{}{}", list(.there), unread(.cut))]
    NoContainer {
        /// The name or number that was asked for.
        wanted: String,
        /// Existing containers.
        there: Vec<Candidate>,
        /// Users who have too many files for all to be read.
        cut: BTreeSet<u32>,
    },
    /// Several containers match.
    #[error("several containers begin with it: {wanted}{}", list(.there))]
    Ambiguous {
        /// The name or number that was asked for.
        wanted: String,
        /// Matching containers.
        there: Vec<Candidate>,
    },
    /// The container is known and has no process.
    #[error("the container does not run: {0}")]
    NotRunning(Candidate),
}

/// Most candidates listed.
const LISTED: usize = 10;

fn list(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = candidates.iter().take(LISTED).map(ToString::to_string).collect();
    let more = candidates.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(" (there are {}{more})", shown.join(", "))
}

fn unread(users: &BTreeSet<u32>) -> String {
    let users: Vec<String> = users.iter().take(LISTED).map(ToString::to_string).collect();
    if users.is_empty() {
        String::new()
    } else {
        format!("; too many files to read all, of user {}", users.join(", "))
    }
}

impl Hint for TargetError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            TargetError::Nothing => "give --pid, --cgroup or --container".to_owned(),
            TargetError::ForeignProc => {
                "mount the namespace's own: mount -t proc proc /proc, or `unshare --mount-proc`".to_owned()
            }
            TargetError::NoProcess(_) => "`ps -e` lists processes as they are numbered here; \
                 a container's own numbers mean nothing outside of it: use --container"
                .to_owned(),
            TargetError::Thread { process, .. } => {
                format!("attach to its process, which has all threads: --pid {process}")
            }
            TargetError::KernelThread(_) => {
                "the kernel's own threads are not observed; give a program's process".to_owned()
            }
            TargetError::Zombie(_) => "there is nothing left to observe in it".to_owned(),
            TargetError::Own(_) => "give the process of another program".to_owned(),
            TargetError::Watch { .. } => {
                "pidfd_open(2) needs Linux 5.3, and may be refused by a container's seccomp filter".to_owned()
            }
            TargetError::NoGroup(_) => "give its path as in /proc/PID/cgroup, or below /sys/fs/cgroup; \
                 a container sees its own group as the top"
                .to_owned(),
            TargetError::Empty(_) => {
                "start the program first, or start it with `guestscope run`; `systemd-cgls` shows who lives where"
                    .to_owned()
            }
            TargetError::NoContainer { .. } => "an engine's number needs at least 4 of its digits; \
                 where no file tells the names, use the number, --cgroup or --pid"
                .to_owned(),
            TargetError::Ambiguous { .. } => "give more of it".to_owned(),
            TargetError::NotRunning(_) => "start it first".to_owned(),
        })
    }
}
