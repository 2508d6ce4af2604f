//! A control group in the file system, of version 1 or 2: its place, and the processes in it and below it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::TargetError;
use crate::{guarded, mounts::Mount, tasks, untrusted::Shown as _};

/// The file that every group of either version has.
const PROCESSES: &str = "cgroup.procs";
/// The file for a threaded group of version 2, which refuses `cgroup.procs`.
const THREADS: &str = "cgroup.threads";
/// Most groups looked at below one; beyond that the user is asked for a smaller part.
const MOST: usize = 20_000;
/// Most bytes of a list: 4 Mi processes, the most there can be, take less.
const LIST_BYTES: u64 = 32 << 20;

/// A control group.
#[derive(Debug)]
pub(super) struct Group {
    directory: PathBuf,
    /// Directories of the same path in other hierarchies, while nobody is in this one.
    others: Vec<PathBuf>,
}

impl Group {
    /// The group by a directory, or by its path in any mounted hierarchy; one with processes is preferred.
    pub(super) fn find(path: &Path) -> Result<Self, TargetError> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let mounts = hierarchies(&fs::read("/proc/self/mountinfo").unwrap_or_default());
        let mut there: Vec<PathBuf> = Vec::new();
        if path.is_absolute() && path.join(PROCESSES).is_file() {
            there.push(path.to_owned());
        }
        let in_mounts = mounts.iter().map(|mount| mount.at.join(below));
        there.extend(in_mounts.filter(|directory| directory.join(PROCESSES).is_file()));
        let found = Self::first_inhabited(&there).or_else(|| {
            let (directory, others) = there.split_first()?;
            Some(Self { directory: directory.clone(), others: others.to_vec() })
        });
        found.ok_or_else(|| TargetError::NoGroup(path.shown().to_string()))
    }

    /// The first of these with processes.
    pub(super) fn first_inhabited(directories: &[PathBuf]) -> Option<Self> {
        let groups =
            directories.iter().map(|directory| Self { directory: directory.clone(), others: Vec::new() });
        groups.into_iter().find(|group| !group.processes().is_empty())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// All processes in it and below it. Those of other PID namespaces, which have no ID here, are left out.
    pub(super) fn processes(&self) -> Vec<u32> {
        let all = [&self.directory].into_iter().chain(&self.others);
        all.map(|directory| Self::below(directory)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn below(directory: &Path) -> Vec<u32> {
        let mut found = BTreeSet::new();
        let mut open = vec![directory.to_owned()];
        let mut seen = 0;
        while let Some(directory) = open.pop() {
            seen += 1;
            found.extend(living_in(&directory));
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            if seen < MOST {
                open.extend(below.map(|entry| entry.path()));
            }
        }
        found.remove(&0);
        found.into_iter().collect()
    }
}

fn living_in(directory: &Path) -> Vec<u32> {
    let numbers = |text: String| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>();
    if let Ok(text) = guarded::read_list(&directory.join(PROCESSES), LIST_BYTES) {
        return numbers(text);
    }
    let threads = numbers(guarded::read_list(&directory.join(THREADS), LIST_BYTES).unwrap_or_default());
    threads.into_iter().filter_map(process_of).collect()
}

/// The directories that lie in a mounted hierarchy, by their paths without links: state files name them, and
/// some of those files are untrusted.
pub(super) fn in_hierarchies(directories: &[PathBuf], mountinfo: &[u8]) -> Vec<PathBuf> {
    let mounts = hierarchies(mountinfo);
    let real = directories.iter().filter_map(|directory| fs::canonicalize(directory).ok());
    real.filter(|directory| mounts.iter().any(|mount| directory.starts_with(&mount.at))).collect()
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<u32> {
    let status = tasks::status(format!("/proc/{thread}").as_ref()).ok()?;
    tasks::field(&status, "Tgid")?.parse().ok()
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Controllers of version 1, `name=` ones too; none in version 2.
    pub(super) controllers: Vec<String>,
    /// Path of the group that is mounted.
    pub(super) root: PathBuf,
    /// Mount point.
    pub(super) at: PathBuf,
}

/// Mounted hierarchies, version 2 first, from the text of mountinfo.
pub(super) fn hierarchies(mountinfo: &[u8]) -> Vec<Hierarchy> {
    let hierarchy = |mount: Mount<'_>| {
        Some(Hierarchy { controllers: mount.controllers()?, root: mount.root, at: mount.at })
    };
    let mut found: Vec<Hierarchy> = Mount::all(mountinfo).filter_map(hierarchy).collect();
    found.sort_by_key(|hierarchy| !hierarchy.controllers.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_with_version_2_first() {
        let mountinfo = b"25 20 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            26 25 0:22 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            27 25 0:23 /pod /sys/fs/cgroup/a\\040b rw - cgroup2 cgroup2 rw\n\
            nonsense\n";
        let found = hierarchies(mountinfo);
        assert_eq!(found.len(), 2);
        assert!(found[0].controllers.is_empty());
        assert_eq!(
            (found[0].root.as_path(), found[0].at.as_path()),
            (Path::new("/pod"), Path::new("/sys/fs/cgroup/a b"))
        );
        assert!(found[1].controllers.contains(&"cpuacct".to_owned()));
    }

    #[test]
    fn processes_of_a_group_are_those_below_it_too() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let group = place.path().join("group");
        fs::create_dir_all(group.join("inner/innermost")).expect("the place is ours");
        // 0 is a process of another PID namespace.
        for (directory, text) in [("", "12\n7\n"), ("inner", "0\n"), ("inner/innermost", "7\n99\n")] {
            fs::write(group.join(directory).join(PROCESSES), text).expect("the place is ours");
        }
        let found = Group::find(&group).expect("it is a group");
        assert_eq!(found.processes(), [7, 12, 99]);
        assert!(Group::first_inhabited(&[group.join("inner/innermost"), group]).is_some());
    }

    #[test]
    fn a_threaded_group_tells_of_threads() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let own = std::process::id();
        fs::write(place.path().join(THREADS), format!("{own}\n4294967295\n")).expect("the place is ours");
        assert_eq!(living_in(place.path()), [own]);
    }

    /// A pipe or a device in the place of the list is not waited for, and no link is followed.
    #[test]
    fn what_is_no_list_of_processes_is_nobodys() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let list = place.path().join(PROCESSES);
        nix::unistd::mkfifo(&list, nix::sys::stat::Mode::S_IRWXU).expect("the place is ours");
        assert_eq!(living_in(place.path()), [0_u32; 0]);
        fs::remove_file(&list).expect("it is there");
        std::os::unix::fs::symlink("/dev/zero", &list).expect("the place is ours");
        assert_eq!(living_in(place.path()), [0_u32; 0]);
    }

    #[test]
    fn a_directory_outside_of_the_hierarchies_is_no_group() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let real = place.path().canonicalize().expect("it is there");
        for directory in ["mounted/inner", "elsewhere"] {
            fs::create_dir_all(real.join(directory)).expect("the place is ours");
        }
        std::os::unix::fs::symlink("../elsewhere", real.join("mounted/link")).expect("the place is ours");
        let mountinfo = format!("27 25 0:23 / {}/mounted rw - cgroup2 cgroup2 rw\n", real.display());
        let named = ["mounted/inner", "elsewhere", "mounted/link", "mounted/absent"].map(|at| real.join(at));
        assert_eq!(in_hierarchies(&named, mountinfo.as_bytes()), [real.join("mounted/inner")]);
    }

    #[test]
    fn a_group_that_is_not_there() {
        let error = Group::find(Path::new("guestscope-never-made")).expect_err("nobody made it");
        assert_eq!(error.to_string(), "no such control group: guestscope-never-made");
    }
}
