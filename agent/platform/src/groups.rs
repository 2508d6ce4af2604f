//! Paths of control groups, by the directory numbers (inodes) in the kernel's records.
//!
//! Yields paths below the mount of the hierarchy that controls CPU time; groups that a container's own mount
//! hides have none. The directories are walked when a number is new, once until [`Groups::look_again`];
//! numbers are never reused.

use std::collections::{HashMap, VecDeque};

use super::{cgroup::cpu_mount, root::Root};
use crate::untrusted::Untrusted;

/// Most directories of one walk; a busy container host has some hundreds. Twice as many numbers are kept.
const MOST: usize = 4_096;
/// Longest path, PATH_MAX of the kernel: a truncated one would stand for another group.
const PATH_BYTES: usize = 4_096;

/// Paths by number.
#[derive(Debug)]
pub struct Groups {
    root: Root,
    /// None for a number that no directory had: groups exist before any record of them, so it will not appear
    /// later.
    paths: HashMap<u64, Option<Untrusted>>,
    may_look: bool,
}

impl Groups {
    /// Control groups of the guest below this root.
    pub fn below(root: Root) -> Self {
        Self { root, paths: HashMap::new(), may_look: true }
    }

    /// Path of the group with this number: `/` for the topmost visible one. None where it is not visible, or
    /// came after the last walk.
    pub fn path(&mut self, number: u64) -> Option<Untrusted> {
        if let Some(path) = self.paths.get(&number) {
            return path.clone();
        }
        if !std::mem::take(&mut self.may_look) {
            return None;
        }
        if self.paths.len() >= MOST {
            self.paths.clear();
        }
        self.look();
        self.paths.entry(number).or_default().clone()
    }

    /// The next unknown number makes the directories be walked again.
    pub fn look_again(&mut self) {
        self.may_look = true;
    }

    fn look(&mut self) {
        let Some(mount) = cpu_mount(&self.root) else { return };
        let top = self.root.inode(&mount).map(|inode| (inode, String::new()));
        let mut waiting: VecDeque<_> = top.into_iter().collect();
        let mut looked = 0;
        while let Some((number, below)) = waiting.pop_front() {
            let directory = format!("{mount}{below}");
            self.paths.insert(number, whole(&below));
            for (name, inode) in self.root.directories(&directory, MOST - looked) {
                looked += 1;
                waiting.push_back((inode, format!("{below}/{name}")));
            }
        }
    }
}

fn whole(below: &str) -> Option<Untrusted> {
    let path = if below.is_empty() { "/" } else { below };
    (path.len() <= PATH_BYTES).then(|| path.into())
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
        let later = groups.path(later).unwrap();
        assert_eq!(
            (later.stored(), &*later.to_string()),
            ("/later\u{1b}[2J", "/later\u{fffd}[2J"),
            "kept exact, shown without"
        );
        let deep = format!("system.slice/{}", "x".repeat(250) + "/" + &"y".repeat(250));
        fs::create_dir_all(tree.path().join("sys/fs/cgroup").join(&deep)).unwrap();
        groups.look_again();
        let whole = groups.path(number(tree.path(), &deep));
        assert_eq!(whole, Some(format!("/{deep}").into()), "two long paths may differ at their ends");
    }

    #[test]
    fn a_link_is_not_followed_and_without_a_hierarchy_nothing_is_known() {
        let tree = guest();
        std::os::unix::fs::symlink("..", tree.path().join("sys/fs/cgroup/system.slice/loop")).unwrap();
        let mut groups = Groups::below(Root::at(tree.path()));
        assert!(groups.path(1).is_none());
        assert_eq!(groups.paths.len(), 4, "three, and the one that is not there: {groups:?}");
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
            assert!(groups.paths.len() <= 2 * MOST + 2, "{}", groups.paths.len());
            groups.look_again();
        }
        for number in u64::MAX - 10 * MOST as u64..u64::MAX {
            assert!(groups.path(number).is_none());
            assert!(groups.paths.len() <= 2 * MOST + 2, "{}", groups.paths.len());
        }
    }
}
