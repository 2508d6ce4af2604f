//! Location of a cgroup controller, and this process's group in it. Yields paths, from /proc/self/mountinfo
//! and /proc/self/cgroup. It writes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use guestscope_base::mounts::{Membership, Mount};

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
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        one(controller, &mounts, &groups)
            .or_else(|| two(&mounts, &groups).filter(|found| has_controller(controller, &found.mount)))
    }
}

fn one(controller: &str, mounts: &[u8], groups: &str) -> Option<Hierarchy> {
    let mount = Mount::all(mounts).find(|mount| mount.is_version_1_of(controller))?;
    let group = Membership::all(groups).find(|group| group.is_version_1_of(controller))?;
    Some(Hierarchy { version: Version::One, home: folder(&mount, group.path), mount: mount.at })
}

fn two(mounts: &[u8], groups: &str) -> Option<Hierarchy> {
    let mount = Mount::all(mounts).find(Mount::is_version_2)?;
    let group = Membership::all(groups).find(Membership::is_version_2)?;
    Some(Hierarchy { version: Version::Two, home: folder(&mount, group.path), mount: mount.at })
}

/// A container may see only a part of the hierarchy: the mount's root is the group that is mounted.
fn folder(mount: &Mount<'_>, group: &str) -> PathBuf {
    let group = Path::new(group);
    let inside = group.strip_prefix(&mount.root).unwrap_or(group);
    mount.at.join(inside.strip_prefix("/").unwrap_or(inside))
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
        assert_eq!(one("cpu", MOUNTS.as_bytes(), GROUPS), Some(expected));
        let expected = Hierarchy {
            version: Version::Two,
            mount: PathBuf::from("/sys/fs/cgroup/unified"),
            home: PathBuf::from("/sys/fs/cgroup/unified/user.slice/session-1.scope"),
        };
        assert_eq!(two(MOUNTS.as_bytes(), GROUPS), Some(expected));
    }

    #[test]
    fn cpuset_is_not_cpu() {
        let mounts = "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        assert_eq!(one("cpu", mounts.as_bytes(), GROUPS), None);
        assert_eq!(two(mounts.as_bytes(), GROUPS), None);
    }

    /// The kernel escapes space, tab, newline and backslash in mountinfo, and nothing in the list of groups.
    #[test]
    fn escapes_in_paths_are_undone() {
        let mounts = "\
32 30 0:28 /my\\040pod /sys/fs/cgroup/a\\040b\\134040 rw,relatime - cgroup cgroup rw,cpu
33 30 0:29 / /sys/fs/cgroup/t\\011wo rw,relatime - cgroup2 cgroup2 rw
";
        let groups = "2:cpu:/my pod/in ner\n0::/user.slice\n";
        let expected = Hierarchy {
            version: Version::One,
            mount: PathBuf::from("/sys/fs/cgroup/a b\\040"),
            home: PathBuf::from("/sys/fs/cgroup/a b\\040/in ner"),
        };
        assert_eq!(one("cpu", mounts.as_bytes(), groups), Some(expected));
        let home = two(mounts.as_bytes(), groups).map(|found| found.home);
        assert_eq!(home, Some(PathBuf::from("/sys/fs/cgroup/t\two/user.slice")));
    }
}
