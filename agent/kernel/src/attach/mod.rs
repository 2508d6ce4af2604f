//! Targets of `attach`: processes by ID, a control group, a container. Found through /proc, the mounted
//! control groups and files of container engines; no engine is contacted.
//!
//! Yields a [`Target`], which lists its living processes by their IDs in this PID namespace. Attaching is
//! done elsewhere.

mod container;
mod container_files;
mod error;
mod group;
mod places;
mod process;

use crate::untrusted::Shown as _;
use std::path::Path;

pub use error::{Candidate, TargetError};

use self::{container::Container, group::Group, process::Process};

/// The target that is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// These processes.
    Processes(&'a [u32]),
    /// All processes of a control group and its descendants, by path.
    Group(&'a Path),
    /// All processes of a container, by ID or name, or a prefix of either.
    Container(&'a str),
}

/// The target that was found.
#[derive(Debug)]
pub struct Target {
    /// Name of the run and the service, unless the user gives one.
    pub name: String,
    /// Description for people.
    pub words: Vec<String>,
    /// The program's file, if the target is one process.
    pub executable: Option<String>,
    members: Members,
    /// The agent and the processes that it has started.
    left_out: Vec<u32>,
}

#[derive(Debug)]
enum Members {
    Processes(Vec<Process>),
    Group(Group),
    Chosen(Box<dyn Choice>),
}

/// Chooses processes anew at each look.
pub trait Choice: std::fmt::Debug {
    /// Living processes that are chosen now, by their IDs in this PID namespace.
    fn processes(&mut self) -> Vec<u32>;
}

impl Target {
    fn new(name: String, words: Vec<String>, executable: Option<String>, members: Members) -> Self {
        Self { name, words, executable, members, left_out: vec![std::process::id()] }
    }

    /// Finds the target. It has at least one living process, or is a control group, which programs may join
    /// later.
    pub fn find(wanted: Wanted<'_>) -> Result<Self, TargetError> {
        process::check_proc()?;
        match wanted {
            Wanted::Processes(pids) => Self::processes_of(pids),
            Wanted::Group(path) => {
                let group = Group::find(path)?;
                let last = path.file_name().unwrap_or(path.as_os_str()).shown().to_string();
                let words = vec!["cgroup".to_owned(), group.directory().shown().to_string()];
                Ok(Self::new(last, words, None, Members::Group(group)))
            }
            Wanted::Container(wanted) => {
                let container = container::find(Path::new("/"), wanted)?;
                let name = container.shown_name().to_owned();
                let words = container.words();
                let members = members_of(&container)?;
                Self::new(name, words, None, members).inhabited()
            }
        }
    }

    /// Processes that are chosen anew at each look. There may be none.
    ///
    /// # Errors
    /// /proc does not show the processes of this PID namespace.
    pub fn chosen(name: String, words: Vec<String>, choice: Box<dyn Choice>) -> Result<Self, TargetError> {
        process::check_proc()?;
        Ok(Self::new(name, words, None, Members::Chosen(choice)))
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
        Ok(Self::new(name, words, executable, Members::Processes(processes)))
    }

    fn inhabited(mut self) -> Result<Self, TargetError> {
        if self.processes().is_empty() {
            return Err(TargetError::Empty(self.words.join(" ")));
        }
        Ok(self)
    }

    /// Whether processes may join it when it has none.
    pub fn may_be_empty(&self) -> bool {
        !matches!(self.members, Members::Processes(_))
    }

    /// Leaves out this process of the agent's own, though it is in the group.
    pub fn leave_out(&mut self, pid: u32) {
        self.left_out.push(pid);
    }

    /// Living processes, in ascending order, without those left out. Processes may join a group at any time.
    pub fn processes(&mut self) -> Vec<u32> {
        let mut processes = match &mut self.members {
            Members::Processes(processes) => {
                processes.retain(Process::is_alive);
                processes.iter().map(|process| process.pid).collect()
            }
            Members::Group(group) => group.processes(),
            Members::Chosen(choice) => choice.processes(),
        };
        processes.retain(|pid| !self.left_out.contains(pid));
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

/// Members by the container's control group; if it has no separate one, its current processes.
fn members_of(container: &Container) -> Result<Members, TargetError> {
    let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let directories = group::in_hierarchies(&container.directories(Path::new("/")), &mountinfo);
    if let Some(group) = Group::first_inhabited(&container.own(directories)) {
        return Ok(Members::Group(group));
    }
    let processes: Vec<Process> =
        container.processes().iter().filter_map(|&pid| Process::open(pid).ok()).collect();
    if processes.is_empty() {
        return Err(TargetError::NotRunning(container.candidate()));
    }
    Ok(Members::Processes(processes))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Target, Wanted};

    #[test]
    fn what_is_left_out_is_no_process_of_the_target() {
        let mut children = ["1000", "1001"].map(|time| Command::new("sleep").arg(time).spawn().unwrap());
        let [first, second] = [children[0].id(), children[1].id()];
        let mut target = Target::find(Wanted::Processes(&[second, first])).unwrap();
        let before = target.processes();
        target.leave_out(first);
        let after = target.processes();
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((before.len(), before.is_sorted(), after), (2, true, vec![second]));
        assert!(target.processes().is_empty());
    }
}
