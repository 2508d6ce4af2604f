//! The user of the NVML process: `nobody`, unless the devices or the library admit only root. Reads file
//! modes; changes nothing.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use nix::unistd::Gid;

use super::library;

/// The user of the NVML process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// `nobody`, in the groups that the devices require.
    Nobody(Vec<Gid>),
    /// The agent's own: only root may use the devices here, or read the library.
    Own,
}

/// The user for `nvidiactl` and the numbered devices in this directory.
pub(super) fn of_devices(folder: &Path) -> User {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let devices = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_device));
    let metadata = devices.filter_map(|device| std::fs::symlink_metadata(device.path()).ok());
    of(metadata.filter(|file| file.file_type().is_char_device()).map(|file| (file.mode(), file.gid())))
}

/// Whether all users may read this file at its path. A name for the loader to search is not checked.
pub(super) fn may_read(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return true };
    allows(&path, 0o004) && path.ancestors().skip(1).all(|folder| allows(folder, 0o001))
}

/// `user`, unless the library is a file that others may not read: the kernel checks its mode even where an
/// open descriptor of it is opened again (`/proc/self/fd/N`), but not the directories above it. A library
/// that any user but root could have put there runs as `nobody` in any case. `root` stands for `/`.
pub(super) fn for_library(root: &Path, path: &Path, user: User) -> User {
    let Ok(path) = path.canonicalize() else { return user };
    if !library::is_roots_alone(root, &path) {
        return match user {
            User::Own => User::Nobody(Vec::new()),
            nobody @ User::Nobody(_) => nobody,
        };
    }
    if allows(&path, 0o004) { user } else { User::Own }
}

fn allows(path: &Path, bit: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.mode() & bit != 0)
}

fn is_device(name: &str) -> bool {
    let number = name.strip_prefix("nvidia");
    number.is_some_and(|rest| rest == "ctl" || (!rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())))
}

/// The user, by mode and group of each device.
fn of(devices: impl Iterator<Item = (u32, u32)>) -> User {
    let mut groups = Vec::new();
    for (mode, group) in devices {
        match () {
            () if mode & 0o006 == 0o006 => {}
            // Root's group would give access to much else.
            () if mode & 0o060 == 0o060 && group != 0 => groups.push(Gid::from_raw(group)),
            () => return User::Own,
        }
    }
    groups.sort_unstable_by_key(|group| group.as_raw());
    groups.dedup();
    User::Nobody(groups)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn nobody(groups: &[u32]) -> User {
        User::Nobody(groups.iter().map(|&group| Gid::from_raw(group)).collect())
    }

    #[rstest]
    #[case::for_all(&[(0o020_666, 0), (0o020_666, 0)], nobody(&[]))]
    #[case::video(&[(0o020_660, 44), (0o020_660, 44)], nobody(&[44]))]
    #[case::two_groups(&[(0o020_660, 105), (0o020_666, 0), (0o020_660, 44)], nobody(&[44, 105]))]
    #[case::roots_group(&[(0o020_660, 0)], User::Own)]
    #[case::root_alone(&[(0o020_666, 0), (0o020_600, 0)], User::Own)]
    #[case::none(&[], nobody(&[]))]
    fn the_helper_is_nobody_where_devices_let_it(#[case] devices: &[(u32, u32)], #[case] expected: User) {
        assert_eq!(of(devices.iter().copied()), expected);
    }

    #[rstest]
    #[case::open(0o755, 0o644, true, nobody(&[]))]
    #[case::folder_is_private(0o700, 0o644, false, nobody(&[]))]
    #[case::file_is_private(0o755, 0o600, false, User::Own)]
    #[case::file_is_its_groups(0o755, 0o640, false, User::Own)]
    fn nobody_opens_what_everybody_may_read(
        #[case] folder: u32,
        #[case] file: u32,
        #[case] expected: bool,
        #[case] user: User,
    ) {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let library = place.path().join("lib.so");
        std::fs::write(&library, "").unwrap();
        std::fs::set_permissions(&library, PermissionsExt::from_mode(file)).unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(folder)).unwrap();
        assert_eq!(may_read(&library), expected);
        assert_eq!(for_library(place.path(), &library, nobody(&[])), user);
        let name = Path::new("libnvidia-ml.so.1");
        assert!(may_read(name), "the loader looks for it");
        assert_eq!(for_library(place.path(), name, nobody(&[])), nobody(&[]));
    }

    /// A user can shut others out of a file, too: the mode alone does not prove that it is root's.
    #[rstest]
    #[case::roots(0o755, 0o600, &[], User::Own)]
    #[case::others_may_write_it(0o755, 0o620, &[], nobody(&[]))]
    #[case::others_may_replace_it(0o775, 0o600, &[], nobody(&[]))]
    #[case::it_is_a_users(0o755, 0o640, &["lib.so"], nobody(&[]))]
    #[case::its_folder_is_a_users(0o755, 0o600, &[""], nobody(&[]))]
    fn a_library_of_others_is_never_roots(
        #[case] folder: u32,
        #[case] file: u32,
        #[case] given: &[&str],
        #[case] expected: User,
    ) {
        use std::os::unix::fs::{PermissionsExt, chown};
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("lib");
        std::fs::create_dir(&inner).unwrap();
        let library = inner.join("lib.so");
        std::fs::write(&library, "").unwrap();
        std::fs::set_permissions(&library, PermissionsExt::from_mode(file)).unwrap();
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(folder)).unwrap();
        if given.iter().any(|name| chown(inner.join(name), Some(65_534), None).is_err()) {
            eprintln!("skipped: only root can give files away");
            return;
        }
        assert_eq!(for_library(place.path(), &library, User::Own), expected);
        assert_eq!(for_library(place.path(), &library, nobody(&[])), expected);
    }

    #[rstest]
    #[case("nvidiactl", true)]
    #[case("nvidia0", true)]
    #[case("nvidia15", true)]
    #[case("nvidia", false)]
    #[case("nvidia-uvm", false)]
    #[case("nvidia0x", false)]
    #[case("null", false)]
    fn devices_are_known_by_name(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_device(name), expected);
    }
}
