//! Containers of this guest: their processes by the engines' control groups, their names by files.
//!
//! Yields the requested container. An engine's container ID is 64 hexadecimal digits, alone or after a
//! prefix, as the name of a group: `docker-ID.scope`, `docker/ID`, `libpod-ID.scope`,
//! `cri-containerd-ID.scope`, `crio-ID.scope`, `kubepods/.../ID`, `system.slice:cri-containerd:ID`. A
//! container started directly with an OCI runtime has any name, and a state file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    Candidate, TargetError,
    container_files::{self, Note, Notes},
    group::{self, Hierarchy},
};
use crate::mounts::Membership;

/// Digits of an engine's number.
const DIGITS: usize = 64;
/// Fewest digits of it that a prefix must have.
const LEAST_DIGITS: usize = 4;

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Container {
    id: String,
    /// The user who owns the container: root, or the user of a rootless one.
    owner: u32,
    names: BTreeSet<String>,
    /// Control groups: controllers of the hierarchy as in /proc/PID/cgroup, and path.
    groups: BTreeSet<(String, String)>,
    /// Directories of its groups, as a runtime wrote them down.
    directories: BTreeSet<PathBuf>,
    /// Its processes that were seen, by their IDs in this PID namespace.
    processes: BTreeSet<u32>,
}

impl Container {
    pub(super) fn shown_name(&self) -> &str {
        let short = self.id.get(..12).filter(|_| self.id.len() == DIGITS).unwrap_or(&self.id);
        self.names.first().map_or(short, String::as_str)
    }

    pub(super) fn candidate(&self) -> Candidate {
        Candidate { id: self.id.clone(), name: self.names.first().cloned(), owner: self.owner }
    }

    /// Description for people.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["container".to_owned(), self.shown_name().to_owned()];
        if self.owner != 0 {
            words.push(format!("of user {}", self.owner));
        }
        words
    }

    /// The directories of these groups, by their paths without links, that the container's owner can have
    /// created. A user's state files may name directories of anyone.
    pub(super) fn own(&self, directories: Vec<PathBuf>) -> Vec<PathBuf> {
        let slice = format!("user-{}.slice", self.owner);
        let is_own = |directory: &PathBuf| {
            self.owner == 0
                || directory.iter().any(|part| *part == *slice)
                || fs::metadata(directory).is_ok_and(|metadata| metadata.uid() == self.owner)
        };
        directories.into_iter().filter(is_own).collect()
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.processes.iter().copied().collect()
    }

    /// Directories of its groups, version 2 first.
    pub(super) fn directories(&self, root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for hierarchy in hierarchies(root) {
            let is_it = |controllers: &str| {
                let mut names = controllers.split(',');
                if hierarchy.controllers.is_empty() {
                    return controllers.is_empty();
                }
                names.all(|name| hierarchy.controllers.iter().any(|known| known == name))
            };
            let here = self.groups.iter().filter(|(controllers, _)| is_it(controllers));
            found.extend(here.filter_map(|(_, path)| {
                let below = Path::new(path).strip_prefix(&hierarchy.root).ok()?;
                Some(hierarchy.at.join(below))
            }));
        }
        found.extend(self.directories.iter().cloned());
        found
    }

    fn is_called(&self, wanted: &str) -> bool {
        self.id == wanted || self.names.contains(wanted)
    }

    fn begins_with(&self, wanted: &str) -> bool {
        let least = if self.id.len() == DIGITS { LEAST_DIGITS } else { 1 };
        let by_id = wanted.len() >= least && self.id.starts_with(wanted);
        by_id || (!wanted.is_empty() && self.names.iter().any(|name| name.starts_with(wanted)))
    }
}

/// The container with this number or name, or the only one that begins like that. Root's are preferred, so
/// that no other user can take the name of one; then running ones.
pub(super) fn find(root: &Path, wanted: &str) -> Result<Container, TargetError> {
    let (all, cut) = all(root);
    let matching = |matches: &dyn Fn(&Container) -> bool| {
        let mut found: Vec<&Container> = all.iter().filter(|container| matches(container)).collect();
        if found.iter().any(|container| container.owner == 0) {
            found.retain(|container| container.owner == 0);
        }
        let running: Vec<&Container> =
            found.iter().copied().filter(|container| !container.processes.is_empty()).collect();
        if running.is_empty() { found } else { running }
    };
    let mut found = matching(&|container| container.is_called(wanted));
    if found.is_empty() {
        found = matching(&|container| container.begins_with(wanted));
    }
    let candidates = |containers: &[&Container]| containers.iter().map(|each| each.candidate()).collect();
    match found[..] {
        [one] if one.processes.is_empty() => Err(TargetError::NotRunning(one.candidate())),
        [one] => Ok(one.clone()),
        [] => {
            let running: Vec<&Container> = all.iter().filter(|each| !each.processes.is_empty()).collect();
            Err(TargetError::NoContainer { wanted: wanted.to_owned(), there: candidates(&running), cut })
        }
        _ => Err(TargetError::Ambiguous { wanted: wanted.to_owned(), there: candidates(&found) }),
    }
}

/// All containers found by processes or files, and the users who have too many files to read them all.
fn all(root: &Path) -> (Vec<Container>, BTreeSet<u32>) {
    let mut found: BTreeMap<(String, u32), Container> = BTreeMap::new();
    for (pid, text) in groups_of_processes(root) {
        for Membership { controllers, path, .. } in Membership::all(&text) {
            // A group outside of the namespace is `/../..`: not to be followed.
            if path.split('/').any(|part| part == "..") {
                continue;
            }
            for (id, group) in containers_in(path) {
                let container = found.entry((id.to_owned(), user_of(path))).or_default();
                container.groups.insert((controllers.to_owned(), group.to_owned()));
                container.processes.insert(pid);
            }
        }
    }
    let hierarchies = hierarchies(root);
    let Notes { all, cut, .. } = container_files::notes(root);
    for Note { owner, id, name, group, directories, process } in all {
        let container = found.entry((id, owner)).or_default();
        container.names.extend(name);
        // A path alone does not identify its hierarchy; a directory that does not exist has no owner.
        container.directories.extend(group.into_iter().flat_map(|group| anywhere(&hierarchies, &group)));
        container.directories.extend(directories);
        container.processes.extend(process);
    }
    let named = found.into_iter().map(|((id, owner), container)| Container { id, owner, ..container });
    (named.collect(), cut)
}

/// The user in whose slice a group lies: systemd makes it, and lets the user make groups only there.
fn user_of(path: &str) -> u32 {
    let number = |part: &str| part.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok();
    path.split('/').find_map(number).unwrap_or(0)
}

/// A group's path in every hierarchy.
fn anywhere(hierarchies: &[Hierarchy], group: &str) -> Vec<PathBuf> {
    let below = group.trim_start_matches('/');
    hierarchies.iter().map(|hierarchy| hierarchy.at.join(below)).collect()
}

/// The hierarchies of groups that are mounted here.
fn hierarchies(root: &Path) -> Vec<Hierarchy> {
    group::hierarchies(&fs::read(root.join("proc/self/mountinfo")).unwrap_or_default())
}

/// Each process's number and the text of its groups.
fn groups_of_processes(root: &Path) -> Vec<(u32, String)> {
    let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, fs::read_to_string(entry.path().join("cgroup")).ok()?))
    };
    entries.filter_map(read).collect()
}

/// Each container whose group this one is or lies in, with that group's path: containers may hold containers.
fn containers_in(path: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if let Some(id) = container_id(part) {
            found.push((id, &path[..end]));
        }
        // The slash after it.
        end += 1;
    }
    found
}

/// The container ID in a group's name. Podman's monitor, which has a separate group, is no container.
fn container_id(name: &str) -> Option<&str> {
    let plain = name.strip_suffix(".scope").unwrap_or(name);
    let id = plain.rsplit(['-', ':']).next()?;
    let is_number = id.len() == DIGITS && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_number && !plain.contains("conmon")).then_some(id)
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
