//! What `attach` shall observe: processes by number, a control group, a container. Found through /proc, the mounted groups
//! and the files that engines leave; no engine is asked.
//!
//! Yields a [`Target`], which names its living processes as this PID namespace numbers them. It attaches nothing.

mod container;
mod container_files;
mod error;
mod group;
mod process;

use std::path::{Path, PathBuf};

pub use error::{Candidate, TargetError};

use self::{container::Container, group::Group, process::Process};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// These processes.
    Processes(&'a [u32]),
    /// All processes of a control group and those below it, by its path.
    Group(&'a Path),
    /// All processes of a container, by its number or name, or the beginning of one.
    Container(&'a str),
}

/// What was found.
#[derive(Debug)]
pub struct Target {
    /// For the run and the service, if nobody gives another one.
    pub name: String,
    /// What it is, for people.
    pub words: Vec<String>,
    /// The program's file, where it is one process.
    pub executable: Option<String>,
    members: Members,
}

#[derive(Debug)]
enum Members {
    Processes(Vec<Process>),
    Group(Group),
}

impl Target {
    /// Finds it. There is at least one living process in it.
    pub fn find(wanted: Wanted<'_>) -> Result<Self, TargetError> {
        process::check_proc()?;
        match wanted {
            Wanted::Processes(pids) => Self::processes_of(pids),
            Wanted::Group(path) => {
                let group = Group::find(path)?;
                let last = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                let words = vec!["cgroup".to_owned(), group.directory().display().to_string()];
                Self { name: last, words, executable: None, members: Members::Group(group) }.inhabited()
            }
            Wanted::Container(wanted) => {
                let container = container::find(Path::new("/"), wanted)?;
                let name = container.shown_name().to_owned();
                let words = vec!["container".to_owned(), name.clone()];
                let members = members_of(&container)?;
                Self { name, words, executable: None, members }.inhabited()
            }
        }
    }

    fn processes_of(pids: &[u32]) -> Result<Self, TargetError> {
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        pids.dedup();
        let processes = pids.iter().map(|&pid| Process::open(pid)).collect::<Result<Vec<_>, _>>()?;
        let first = processes.first().ok_or(TargetError::Nothing)?;
        let (name, command, executable) = (first.name(), first.command(), first.executable());
        let (words, executable) = if processes.len() == 1 {
            (command, executable)
        } else {
            let numbers: Vec<String> = pids.iter().map(ToString::to_string).collect();
            (vec!["processes".to_owned(), numbers.join(",")], None)
        };
        Ok(Self { name, words, executable, members: Members::Processes(processes) })
    }

    fn inhabited(mut self) -> Result<Self, TargetError> {
        if self.processes().is_empty() {
            return Err(TargetError::Empty(self.words.join(" ")));
        }
        Ok(self)
    }

    /// Its processes that live, in ascending order, without the agent itself and what it has started (the
    /// helper that asks a graphics processor's driver). Processes may join a group at any time.
    pub fn processes(&mut self) -> Vec<u32> {
        let own = std::process::id();
        let mut processes = match &mut self.members {
            Members::Processes(processes) => {
                processes.retain(Process::is_alive);
                processes.iter().map(|process| process.pid).collect()
            }
            Members::Group(group) => group.processes(),
        };
        processes.retain(|&pid| pid != own && parent(pid) != Some(own));
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

/// The process that started it, as far as that lives.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// By its control group; a container that has none of its own, by its processes of now.
fn members_of(container: &Container) -> Result<Members, TargetError> {
    let directories: Vec<PathBuf> = container.directories(Path::new("/"));
    if let Some(group) = Group::first_inhabited(&directories) {
        return Ok(Members::Group(group));
    }
    let processes: Vec<Process> =
        container.processes().iter().filter_map(|&pid| Process::open(pid).ok()).collect();
    if processes.is_empty() {
        return Err(TargetError::NotRunning(container.candidate()));
    }
    Ok(Members::Processes(processes))
}
