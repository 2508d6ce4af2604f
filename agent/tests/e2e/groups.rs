//! Control groups for a test, in the hierarchy that this machine has; removed when the test ends.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::ground::skipped;

/// A group and its children. When it is dropped, remaining processes are moved up first.
pub(crate) struct Group {
    home: PathBuf,
    directory: PathBuf,
}

impl Group {
    /// The group `below` inside a new group with a unique name; that group itself if `below` is empty. None,
    /// with a note on stdout, if groups cannot be made.
    pub(crate) fn new(test: &str, below: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
        let hierarchies = mounts.lines().filter_map(hierarchy).filter(|(at, ..)| !at.ends_with("/cpuset"));
        Self::in_one_of(test, below, hierarchies.map(|(at, ..)| at))
    }

    /// In the hierarchy that has this controller (`cpu`, `memory`): version 1 if it does, else version 2.
    pub(crate) fn with(controller: &str, test: &str, below: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
        let all: Vec<_> = mounts.lines().filter_map(hierarchy).collect();
        let old = all
            .iter()
            .find(|(_, kind, options)| *kind == "cgroup" && options.split(',').any(|one| one == controller));
        let one = old.or_else(|| all.iter().find(|(_, kind, _)| *kind == "cgroup2"));
        let mut group = Self::in_one_of(test, "", one.map(|(at, ..)| *at).into_iter())?;
        if old.is_none() {
            // In version 2 the parent has to enable a controller for its children.
            let mount = group.home.parent().expect("it lies in a mount");
            for above in [mount, &group.home] {
                fs::write(above.join("cgroup.subtree_control"), format!("+{controller}")).expect("root may");
            }
        }
        group.directory = group.home.join(below);
        fs::create_dir_all(&group.directory).expect("the group is ours");
        Some(group)
    }

    fn in_one_of<'a>(test: &str, below: &str, hierarchies: impl Iterator<Item = &'a str>) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        for at in hierarchies {
            let home = Path::new(at).join(format!("guestscope-e2e-{}-{number}", std::process::id()));
            let directory = home.join(below);
            if fs::create_dir_all(&directory).is_ok() {
                return Some(Self { home, directory });
            }
        }
        skipped(test, "no control groups can be made");
        None
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its path in its hierarchy.
    pub(crate) fn path(&self) -> String {
        let mount = self.home.parent().expect("it lies in a mount");
        format!("/{}", self.directory.strip_prefix(mount).expect("the same").display())
    }

    /// Moves a process into the group, or into a child of it.
    pub(crate) fn take(&self, below: &str, pid: i32) {
        let directory = self.directory.join(below);
        fs::create_dir_all(&directory).expect("the group is ours");
        fs::write(directory.join("cgroup.procs"), pid.to_string()).expect("the group is ours");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let root = self.home.parent().expect("it lies in a mount").join("cgroup.procs");
        let end = Instant::now() + Duration::from_secs(5);
        // Processes that have just ended count as members for a moment.
        while self.home.exists() && Instant::now() < end {
            remove(&self.home, &root);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Mount point, file system and options of a hierarchy.
fn hierarchy(line: &str) -> Option<(&str, &str, &str)> {
    let mut fields = line.split(' ');
    let (at, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
    kind.starts_with("cgroup").then_some((at, kind, options))
}

fn remove(group: &Path, root: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), root);
        }
    }
    for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
        let _ = fs::write(root, pid);
    }
    let _ = fs::remove_dir(group);
}
