//! The path to a directory that the caller names. It may lead through directories of others: links in those
//! are not followed.
//!
//! Yields the directory, created if it is missing. A link that belongs to root, or to the user whose rights
//! this thread has, is followed. Any other link is not: its owner could choose where root creates a
//! directory.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat, readlinkat},
    sys::stat::{Mode, SFlag, fstat},
};

use super::{one, owner};

/// Most links followed: as many as the kernel follows (path_resolution(7)).
const MOST_LINKS: u32 = 40;
const ON_THE_WAY: OFlag =
    OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC).union(OFlag::O_DIRECTORY);

/// Opens `path`, making its missing directories, with the usual mode.
///
/// # Errors
/// The part of the path that failed, with the error.
pub(super) fn open_or_make(path: &Path) -> Result<OwnedFd, (PathBuf, io::Error)> {
    let mut links = 0;
    let mut walked = PathBuf::new();
    let mut left: Vec<OsString> = steps(path);
    let told = |walked: &Path, error: io::Error| (walked.to_owned(), error);
    let mut here = begin(Path::new(".")).map_err(|error| told(path, error))?;
    while let Some(step) = left.pop() {
        walked.push(&step);
        if step == "/" {
            here = begin(Path::new("/")).map_err(|error| told(&walked, error))?;
            continue;
        }
        match next(&here, &step).map_err(|error| told(&walked, error))? {
            Step::Directory(directory) => here = directory,
            Step::Link(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(told(&walked, Errno::ELOOP.into()));
                }
                walked.pop();
                left.extend(steps(&target));
            }
        }
    }
    listed(here).map_err(|error| told(path, error))
}

enum Step {
    Directory(OwnedFd),
    Link(PathBuf),
}

/// Parts of a path, the first one last.
fn steps(path: &Path) -> Vec<OsString> {
    let steps = path.components().filter(|step| *step != Component::CurDir);
    steps.map(|step| step.as_os_str().to_owned()).rev().collect()
}

fn begin(at: &Path) -> io::Result<OwnedFd> {
    Ok(openat(AT_FDCWD, at, ON_THE_WAY, Mode::empty())?)
}

fn next(here: &OwnedFd, step: &OsStr) -> io::Result<Step> {
    match openat(here, step, ON_THE_WAY, Mode::empty()) {
        Ok(directory) => Ok(Step::Directory(directory)),
        Err(Errno::ENOENT) => match one::make(here, Path::new(step), Mode::from_bits_truncate(0o755)) {
            // Another process has created it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Step::Directory(openat(here, step, ON_THE_WAY, Mode::empty())?))
            }
            made => made.map(Step::Directory),
        },
        Err(Errno::ENOTDIR | Errno::ELOOP) => link(here, step).map(Step::Link),
        Err(error) => Err(error.into()),
    }
}

/// Target of a link, if it may be followed.
fn link(here: &OwnedFd, step: &OsStr) -> io::Result<PathBuf> {
    let found = openat(here, step, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
    let status = fstat(&found)?;
    if SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFLNK {
        return Err(Errno::ENOTDIR.into());
    }
    if status.st_uid != 0 && status.st_uid != owner::file_user() {
        let why = "it is a link of another user's";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(PathBuf::from(readlinkat(found.as_fd(), "")?))
}

/// A directory that may be written and not listed is enough.
fn listed(directory: OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    match openat(&directory, ".", flags, Mode::empty()) {
        Err(Errno::EACCES) => Ok(directory),
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, lchown, symlink},
    };

    use nix::unistd::Uid;
    use rstest::rstest;
    use tempfile::tempdir;

    use super::super::{
        create_unique,
        tests::{OWNER, is_root, make, names, of_owner},
    };

    /// In a directory that a user owns, links of that user are not followed; links of root and of the caller
    /// are.
    #[rstest]
    #[case::of_another("runs", Some(OWNER.uid), Uid::from_raw(0), false)]
    #[case::of_another_further_up("runs/deep/er", Some(OWNER.uid), Uid::from_raw(0), false)]
    #[case::of_another_for_a_user("runs", Some(54_321), Uid::from_raw(OWNER.uid), false)]
    #[case::of_root("runs/deep", None, Uid::from_raw(0), true)]
    #[case::of_root_for_a_user("runs", None, Uid::from_raw(OWNER.uid), true)]
    #[case::own("runs", Some(OWNER.uid), Uid::from_raw(OWNER.uid), true)]
    fn links_of_others_lead_no_folder_elsewhere(
        #[case] parent: &str,
        #[case] link: Option<u32>,
        #[case] caller: Uid,
        #[case] follows: bool,
    ) {
        if !is_root("links of others") {
            return;
        }
        let (theirs, elsewhere) = (of_owner(), of_owner());
        fs::set_permissions(theirs.path(), Permissions::from_mode(0o755)).unwrap();
        let at = theirs.path().join("runs");
        symlink(elsewhere.path(), &at).unwrap();
        lchown(&at, link, link).unwrap();
        let assumed = (!caller.is_root()).then(|| OWNER.assume().unwrap());
        let made = create_unique(&theirs.path().join(parent), "run");
        drop(assumed);
        match made {
            Ok((path, _)) => assert!(follows, "{} was made", path.display()),
            Err((path, error)) => {
                assert!(!follows, "{}: {error}", path.display());
                assert!(error.to_string().contains("link of another user's"), "{error}");
                assert_eq!((path, names(elsewhere.path())), (at, Vec::new()));
            }
        }
    }

    /// Relative links, links to links, steps up, and links without end.
    #[test]
    fn the_way_is_the_kernels() {
        let temporary = tempdir().unwrap();
        let at = temporary.path();
        fs::create_dir_all(at.join("a/b")).unwrap();
        symlink("../a/./b", at.join("a/relative")).unwrap();
        symlink(at.join("a/relative"), at.join("twice")).unwrap();
        symlink("round", at.join("round")).unwrap();
        let (path, _) = make(&at.join("twice/../b/c/d"), "run");
        assert_eq!(fs::canonicalize(path).unwrap(), fs::canonicalize(at).unwrap().join("a/b/c/d/run"));
        let (_, error) = create_unique(&at.join("round"), "run").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        fs::write(at.join("file"), "").unwrap();
        let (_, error) = create_unique(&at.join("file/x"), "run").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
    }
}
