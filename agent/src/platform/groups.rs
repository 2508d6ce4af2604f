//! Paths of control groups, which the kernel's records know by the numbers of their directories.
//!
//! Yields paths below the mount of the hierarchy that rules CPU time: what a container's own mount does not show has none. The
//! directories are walked when a number is new, once until [`Groups::look_again`]; numbers are never given twice.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    cgroup::cpu_mount,
    root::{Root, clean},
};

/// Directories that one walk looks at, and paths that are kept; a busy container host has some hundreds.
const MOST: usize = 4_096;

/// Numbers to paths.
#[derive(Debug)]
pub struct Groups {
    root: Root,
    paths: HashMap<u64, Arc<str>>,
    may_look: bool,
}

impl Groups {
    /// Of the guest below this root.
    pub fn below(root: Root) -> Self {
        Self { root, paths: HashMap::new(), may_look: true }
    }

    /// Of the group with this number: `/` for the topmost that can be seen. None where it cannot be seen, or came after the last
    /// look.
    pub fn path(&mut self, number: u64) -> Option<Arc<str>> {
        if !self.paths.contains_key(&number) && std::mem::take(&mut self.may_look) {
            self.look();
        }
        self.paths.get(&number).cloned()
    }

    /// The next number that is not known lets the directories be walked again.
    pub fn look_again(&mut self) {
        self.may_look = true;
    }

    fn look(&mut self) {
        let Some(mount) = cpu_mount(&self.root) else { return };
        if self.paths.len() >= MOST {
            self.paths.clear();
        }
        let top = self.root.inode(&mount).map(|inode| (inode, String::new()));
        let mut waiting: VecDeque<_> = top.into_iter().collect();
        let mut looked = 0;
        while let Some((number, below)) = waiting.pop_front() {
            let directory = format!("{mount}{below}");
            let path = if below.is_empty() { Some("/".to_owned()) } else { clean(&below) };
            self.paths.extend(path.map(|path| (number, Arc::from(path))));
            for (name, inode) in self.root.directories(&directory, MOST - looked) {
                looked += 1;
                waiting.push_back((inode, format!("{below}/{name}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

    use super::*;

    const LINE: &str = "36 25 0:32 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";

    fn guest() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        fs::create_dir_all(tree.path().join("sys/fs/cgroup/system.slice/one")).unwrap();
        fs::write(tree.path().join("proc/self/cgroup"), "0::/system.slice/one\n").unwrap();
        fs::write(tree.path().join("proc/self/mountinfo"), LINE).unwrap();
        fs::write(tree.path().join("sys/fs/cgroup/cpu.max"), "max 100000\n").unwrap();
        tree
    }

    fn number(tree: &Path, below: &str) -> u64 {
        fs::metadata(tree.join("sys/fs/cgroup").join(below)).unwrap().ino()
    }

    #[test]
    fn a_number_is_that_of_a_directory() {
        let tree = guest();
        let mut groups = Groups::below(Root::at(tree.path()));
        let mut path = |below: &str| groups.path(number(tree.path(), below)).map(|path| path.to_string());
        assert_eq!(path("system.slice/one").as_deref(), Some("/system.slice/one"));
        assert_eq!(path("system.slice").as_deref(), Some("/system.slice"));
        assert_eq!(path("").as_deref(), Some("/"));
        assert_eq!(path("cpu.max"), None, "a file is no group");
        fs::create_dir(tree.path().join("sys/fs/cgroup/later\u{1b}[2J")).unwrap();
        assert_eq!(path("later\u{1b}[2J"), None, "not walked at every wait");
        let later = number(tree.path(), "later\u{1b}[2J");
        groups.look_again();
        assert_eq!(groups.path(later).as_deref(), Some("/later[2J"), "no control characters");
    }

    #[test]
    fn a_link_is_not_followed_and_without_a_hierarchy_nothing_is_known() {
        let tree = guest();
        std::os::unix::fs::symlink("..", tree.path().join("sys/fs/cgroup/system.slice/loop")).unwrap();
        let mut groups = Groups::below(Root::at(tree.path()));
        assert!(groups.path(1).is_none());
        assert_eq!(groups.paths.len(), 3, "{groups:?}");
        fs::write(tree.path().join("proc/self/mountinfo"), "").unwrap();
        let mut groups = Groups::below(Root::at(tree.path()));
        assert_eq!(groups.path(number(tree.path(), "")), None);
    }

    #[test]
    fn any_number_of_groups_takes_little_memory() {
        let tree = guest();
        for index in 0..MOST + 10 {
            fs::create_dir(tree.path().join(format!("sys/fs/cgroup/{index}"))).unwrap();
        }
        let mut groups = Groups::below(Root::at(tree.path()));
        for _ in 0..3 {
            assert!(groups.path(0).is_none());
            assert!(groups.paths.len() <= MOST + 1, "{}", groups.paths.len());
            groups.look_again();
        }
    }
}
