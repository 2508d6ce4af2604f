//! What the kernel says of mounts and of control groups: /proc/PID/mountinfo and /proc/PID/cgroup.
//!
//! Yields [`Mount`]s and [`Membership`]s. A line that makes no sense is passed over: others choose most of
//! the text, and it may be cut where a reader's limit is.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

use crate::untrusted::Untrusted;

/// A line of mountinfo. Its fields: number, parent, device, root, mount point, options, any number of others,
/// `-`, type, source, options of the file system (`man 5 proc_pid_mountinfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The whole line, unchanged.
    pub line: &'a [u8],
    /// What is mounted: a path from the file system's own root. For a control group, that group.
    pub root: PathBuf,
    /// Mount point.
    pub at: PathBuf,
    /// Type of the file system.
    pub kind: &'a [u8],
    /// Options of the file system, with commas between them.
    options: &'a [u8],
}

impl<'a> Mount<'a> {
    /// All mounts, in the order of the text: of two at one place, the later one covers the earlier one.
    pub fn all(mountinfo: &'a [u8]) -> impl DoubleEndedIterator<Item = Self> {
        mountinfo.split(|&byte| byte == b'\n').filter_map(Self::of_line)
    }

    fn of_line(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let (root, at) = (fields.nth(3)?, fields.next()?);
        // The first field after these that is a dash: paths have no blanks, which are escaped.
        let _ = fields.find(|&field| field == b"-")?;
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        Some(Self { line, root: unescaped(root), at: unescaped(at), kind, options })
    }

    /// If it is a hierarchy of control groups: its controllers, with those named `name=` and with options
    /// that are none, for version 1; nothing for version 2.
    pub fn controllers(&self) -> Option<Vec<String>> {
        match self.kind {
            b"cgroup2" => Some(Vec::new()),
            b"cgroup" => {
                let options = Untrusted::of_bytes(self.options);
                Some(options.stored().split(',').map(str::to_owned).collect())
            }
            _ => None,
        }
    }

    /// Whether it is the hierarchy of control groups of version 1 with this controller.
    pub fn is_version_1_of(&self, controller: &str) -> bool {
        self.controllers().is_some_and(|all| all.iter().any(|one| one == controller))
    }

    /// Whether it is the hierarchy of control groups of version 2.
    pub fn is_version_2(&self) -> bool {
        self.kind == b"cgroup2"
    }
}

/// mountinfo has space, tab, newline and backslash as a backslash and three octal digits. A backslash that is
/// not followed by a byte's three digits stands for itself.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let byte = match after {
            [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'))
            }
            _ => None,
        };
        plain.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// A line of /proc/PID/cgroup: the process's group in one hierarchy. Nothing in it is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The hierarchy's controllers, with commas between them; empty for version 2.
    pub controllers: &'a str,
    /// The group's path from the hierarchy's own root, or `/..` and so on for one outside of the namespace.
    pub path: &'a str,
    number: &'a str,
}

impl<'a> Membership<'a> {
    /// All groups of a process.
    pub fn all(cgroup: &'a str) -> impl Iterator<Item = Self> {
        cgroup.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Self { controllers, path, number })
        })
    }

    /// Whether its hierarchy is that of version 1 with this controller.
    pub fn is_version_1_of(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|one| one == controller)
    }

    /// Whether its hierarchy is that of version 2.
    pub fn is_version_2(&self) -> bool {
        self.number == "0" && self.controllers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::ffi::OsStrExt as _, path::Path};

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(b"/sys/fs/cgroup", b"/sys/fs/cgroup")]
    #[case::each(b"/a\\040b\\011c\\012d\\134e", b"/a b\tc\nd\\e")]
    #[case::an_escape_that_is_a_name(b"/\\134040", b"/\\040")]
    #[case::any_byte(b"/\\377\\043", b"/\xff#")]
    #[case::more_than_a_byte(b"/\\400", b"/\\400")]
    #[case::no_octal_digits(b"/\\089\\+12\\ 12", b"/\\089\\+12\\ 12")]
    #[case::cut(b"/a\\04", b"/a\\04")]
    #[case::not_text(b"/\xff\\040\xfe", b"/\xff \xfe")]
    fn escapes_are_undone(#[case] field: &[u8], #[case] path: &[u8]) {
        assert_eq!(unescaped(field).as_os_str().as_bytes(), path);
    }

    #[test]
    fn mounts_are_told_with_their_hierarchies() {
        let text = b"25 20 0:21 / /sys/fs/cgroup rw - tmpfs  rw,mode=755\n\
            26 25 0:22 / /sys/fs/cgroup/a\\040b rw,nosuid shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
            27 25 0:23 /my\\040pod /sys/fs/cgroup/\xff rw - cgroup2 cgroup2 rw\n\
            nonsense\n\n28 25 0:24 / /a - b - cgroup2 x rw\n29 25 0:25 / /cut rw - cgroup2";
        let found: Vec<Mount<'_>> = Mount::all(text).collect();
        let kinds: Vec<&[u8]> = found.iter().map(|mount| mount.kind).collect();
        assert_eq!(kinds, [&b"tmpfs"[..], b"cgroup", b"cgroup2", b"b"]);
        let (one, two) = (&found[1], &found[2]);
        assert_eq!((one.root.as_path(), one.at.as_path()), (Path::new("/"), Path::new("/sys/fs/cgroup/a b")));
        assert_eq!((one.is_version_2(), one.is_version_1_of("cpuacct")), (false, true));
        assert!(!one.is_version_1_of("cpu,cpuacct") && !one.is_version_1_of("memory"));
        assert_eq!(two.root, Path::new("/my pod"));
        assert_eq!(two.at.as_os_str().as_bytes(), b"/sys/fs/cgroup/\xff");
        assert_eq!((two.is_version_2(), two.controllers()), (true, Some(Vec::new())));
        assert_eq!(found[0].controllers(), None);
        assert!(found[0].line.starts_with(b"25 20 ") && found[0].line.ends_with(b"755"));
    }

    #[test]
    fn groups_of_a_process_are_told() {
        let text = "3:cpuset:/\n2:cpu,cpuacct:/a b/c:d\n1:name=systemd:/x\n0::/user.slice\nnonsense\n7:\n";
        let all: Vec<Membership<'_>> = Membership::all(text).collect();
        let paths: Vec<&str> = all.iter().map(|group| group.path).collect();
        assert_eq!(paths, ["/", "/a b/c:d", "/x", "/user.slice"]);
        let with_cpu: Vec<bool> = all.iter().map(|group| group.is_version_1_of("cpu")).collect();
        assert_eq!(with_cpu, [false, true, false, false]);
        let second: Vec<bool> = all.iter().map(Membership::is_version_2).collect();
        assert_eq!(second, [false, false, false, true]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for mount in Mount::all(&bytes) {
                let _ = mount.controllers();
            }
            let text = Untrusted::of_bytes(&bytes);
            let _ = Membership::all(text.stored()).count();
        }

        /// What the kernel writes is read, whatever the path.
        #[test]
        fn any_path_is_read_as_it_is(name in prop::collection::vec(1_u8.., 0..40)) {
            let escape = |byte: &u8| match byte {
                b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
                _ => vec![*byte],
            };
            let written: Vec<u8> = name.iter().flat_map(escape).collect();
            let line = [b"1 2 0:3 /", &*written, b" /at/", &*written, b" rw - cgroup2 none rw"].concat();
            let mount = Mount::all(&line).next().expect("a whole line");
            prop_assert_eq!(mount.root.as_os_str().as_bytes(), [b"/", &*name].concat());
            prop_assert_eq!(mount.at.as_os_str().as_bytes(), [b"/at/", &*name].concat());
        }
    }
}
