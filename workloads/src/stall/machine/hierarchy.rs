//! Location of a cgroup controller, and this process's group in it. Yields paths, from /proc/self/mountinfo
//! and /proc/self/cgroup. It writes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::stall::error::StallError;

/// Version of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    /// Name of the file into which a thread's number is written to move it.
    pub fn threads_file(self) -> &'static str {
        match self {
            Self::One => "tasks",
            Self::Two => "cgroup.threads",
        }
    }
}

/// Hierarchy with a controller.
#[derive(Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    pub mount: PathBuf,
    /// Folder of this process's group.
    pub home: PathBuf,
}

impl Hierarchy {
    /// The hierarchy of `cpu`.
    pub fn find() -> Result<Self, StallError> {
        Self::of("cpu").ok_or(StallError::NoCpuController)
    }

    pub fn of(controller: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        one(controller, &mounts, &groups)
            .or_else(|| two(&mounts, &groups).filter(|found| has_controller(controller, &found.mount)))
    }
}

fn one(controller: &str, mounts: &str, groups: &str) -> Option<Hierarchy> {
    let (root, mount) = mounted(mounts, "cgroup", |options| options.split(',').any(|o| o == controller))?;
    let group = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|own| own == controller).then_some(path)
    })?;
    Some(Hierarchy { version: Version::One, home: folder(&mount, root, group), mount })
}

fn two(mounts: &str, groups: &str) -> Option<Hierarchy> {
    let (root, mount) = mounted(mounts, "cgroup2", |_| true)?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Hierarchy { version: Version::Two, home: folder(&mount, root, group), mount })
}

/// Which group of a hierarchy is mounted, and where. Fields of a line: number, parent, device, root, mount
/// point, options, any number of others, a dash, type, source, options of the file system.
fn mounted<'a>(mounts: &'a str, kind: &str, fits: impl Fn(&str) -> bool) -> Option<(&'a str, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' '), after.split(' '));
        let (root, mount) = (before.nth(3)?, before.next()?);
        (after.next()? == kind && fits(after.nth(1)?)).then(|| (root, PathBuf::from(mount)))
    })
}

/// A container may see only a part of the hierarchy: `root` is the group that is mounted.
fn folder(mount: &Path, root: &str, group: &str) -> PathBuf {
    let group = Path::new(group);
    let inside = group.strip_prefix(root).unwrap_or(group);
    mount.join(inside.strip_prefix("/").unwrap_or(inside))
}

fn has_controller(controller: &str, mount: &Path) -> bool {
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|own| own == controller)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Hierarchy, Version, one, two};

    const MOUNTS: &str = "\
24 1 0:22 / /proc rw - proc proc rw
31 30 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 30 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";
    const GROUPS: &str = "\
3:cpuset:/
2:cpu,cpuacct:/docker/abc/inner
0::/user.slice/session-1.scope
";

    #[test]
    fn the_controller_is_found_in_either_version() {
        let expected = Hierarchy {
            version: Version::One,
            mount: PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"),
            home: PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/inner"),
        };
        assert_eq!(one("cpu", MOUNTS, GROUPS), Some(expected));
        let expected = Hierarchy {
            version: Version::Two,
            mount: PathBuf::from("/sys/fs/cgroup/unified"),
            home: PathBuf::from("/sys/fs/cgroup/unified/user.slice/session-1.scope"),
        };
        assert_eq!(two(MOUNTS, GROUPS), Some(expected));
    }

    #[test]
    fn cpuset_is_not_cpu() {
        let mounts = "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        assert_eq!(one("cpu", mounts, GROUPS), None);
        assert_eq!(two(mounts, GROUPS), None);
    }
}
