//! One directory held open: every file is reached through its descriptor, so that a rename of the folder does no harm
//! and a link planted in it is never followed (the agent is root, the folder belongs to somebody else).
//!
//! Yields files of mode 0600 in directories of mode 0700, owned by whom the caller names. Knows no file formats.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat, renameat},
    sys::stat::{Mode, mkdirat},
    unistd::{Gid, Uid, UnlinkatFlags, fchown, fsync, unlinkat},
};

use super::error::{Error, Result};

/// Folders that may begin in one second under one name before making another is refused.
const MOST_SUFFIXES: u32 = 10_000;

/// Whom files belong to: under sudo, the user who called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory {
    descriptor: OwnedFd,
    owner: Option<Owner>,
}

impl Directory {
    /// Makes `parent/name`, or `parent/name-2`, ... whichever is free, and the parents that are missing. A link is
    /// followed in `parent` (the caller's own choice), never in the folder.
    pub(super) fn create_unique(parent: &Path, name: &str, owner: Option<Owner>) -> Result<(PathBuf, Self)> {
        let failed =
            |path: &Path, errno: Errno| Error::Create { path: path.to_owned(), source: errno.into() };
        let parent = open_or_make(parent, owner).map(|directory| (parent, directory));
        let (parent, directory) = parent.map_err(|(path, errno)| failed(&path, errno))?;
        for suffix in 1..=MOST_SUFFIXES {
            let name = if suffix == 1 { name.to_owned() } else { format!("{name}-{suffix}") };
            let path = parent.join(&name);
            match make(&directory, Path::new(&name), Mode::S_IRWXU, owner) {
                Ok(descriptor) => return Ok((path, Self { descriptor, owner })),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(failed(&path, errno)),
            }
        }
        Err(failed(&parent.join(name), Errno::EEXIST))
    }

    /// Makes a directory inside, or takes the one that is there.
    pub(super) fn subdirectory(&self, name: &str) -> io::Result<Self> {
        let descriptor = match make(&self.descriptor, Path::new(name), Mode::S_IRWXU, self.owner) {
            Err(Errno::EEXIST) => open_directory(&self.descriptor, Path::new(name), OFlag::O_NOFOLLOW),
            made => made,
        }?;
        Ok(Self { descriptor, owner: self.owner })
    }

    /// Makes a file that is not there yet, for reading and writing.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let descriptor = openat(&self.descriptor, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        chown(&descriptor, self.owner)?;
        Ok(File::from(descriptor))
    }

    /// Opens a file that is there, for reading.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.descriptor, name, flags, Mode::empty())?))
    }

    /// Writes a file as a whole: readers see the old one or the new one, also after a power cut. What `write` returns
    /// is passed on.
    pub(super) fn replace<T, E: From<io::Error>>(
        &self,
        name: &str,
        write: impl FnOnce(File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let temporary = format!("{name}.tmp");
        // One that a failed attempt left behind.
        match self.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let file = self.create(&temporary)?;
        let finish = || -> std::result::Result<T, E> {
            let written = write(file.try_clone()?)?;
            file.sync_all()?;
            renameat(&self.descriptor, temporary.as_str(), &self.descriptor, name)
                .map_err(io::Error::from)?;
            fsync(&self.descriptor).map_err(io::Error::from)?;
            Ok(written)
        };
        finish().inspect_err(|_| {
            // Gives the space back; the error worth telling is the first one.
            self.remove(&temporary).unwrap_or_default();
        })
    }

    /// [`Self::replace`] with bytes at hand.
    pub(super) fn replace_with(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, |mut file| file.write_all(bytes))
    }

    /// A path by way of the descriptor.
    pub(super) fn stable_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }

    /// Its path now; none if it was deleted, or where /proc is not mounted.
    pub(super) fn current_path(&self) -> Option<PathBuf> {
        let path = std::fs::read_link(self.stable_path()).ok()?;
        path.is_dir().then_some(path)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, UnlinkatFlags::NoRemoveDir)?)
    }
}

/// Opens `path`, making what is missing of it. Directories on the way keep the usual mode: only the run folder itself
/// is private.
fn open_or_make(path: &Path, owner: Option<Owner>) -> std::result::Result<OwnedFd, (PathBuf, Errno)> {
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let told = |errno| (here.to_owned(), errno);
    match open_directory(AT_FDCWD, here, OFlag::empty()) {
        Err(Errno::ENOENT) => {}
        opened => return opened.map_err(told),
    }
    let (Some(parent), Some(name)) = (here.parent(), here.file_name()) else {
        return Err(told(Errno::ENOENT));
    };
    let parent = open_or_make(parent, owner)?;
    match make(&parent, Path::new(name), Mode::from_bits_truncate(0o755), owner) {
        // Made by somebody else meanwhile.
        Err(Errno::EEXIST) => open_directory(&parent, Path::new(name), OFlag::O_NOFOLLOW),
        made => made,
    }
    .map_err(told)
}

/// Makes a directory, opens it without following a link and gives it to its owner.
fn make(parent: &OwnedFd, name: &Path, mode: Mode, owner: Option<Owner>) -> nix::Result<OwnedFd> {
    mkdirat(parent, name, mode)?;
    let descriptor = open_directory(parent, name, OFlag::O_NOFOLLOW)?;
    chown(&descriptor, owner)?;
    Ok(descriptor)
}

fn open_directory(parent: impl std::os::fd::AsFd, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    openat(parent, path, flags | OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
}

fn chown(descriptor: &OwnedFd, owner: Option<Owner>) -> nix::Result<()> {
    owner.map_or(Ok(()), |Owner { uid, gid }| {
        fchown(descriptor, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn folders_are_private_and_unique() {
        let temporary = tempfile::tempdir().unwrap();
        let parent = temporary.path().join("a/b");
        for expected in ["x", "x-2", "x-3"] {
            let (path, directory) = Directory::create_unique(&parent, "x", None).unwrap();
            assert_eq!(path, parent.join(expected));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
            directory.create("file").unwrap();
            assert_eq!(fs::metadata(path.join("file")).unwrap().mode() & 0o7777, 0o600);
            directory.subdirectory("sub").unwrap().create("file").unwrap();
            assert_eq!(fs::metadata(path.join("sub")).unwrap().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn a_planted_link_is_never_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let victim = temporary.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let elsewhere = temporary.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, temporary.path().join("x")).unwrap();

        let (path, directory) = Directory::create_unique(temporary.path(), "x", None).unwrap();
        assert_eq!(path, temporary.path().join("x-2"));
        for name in ["m", "m.tmp", "s"] {
            std::os::unix::fs::symlink(&victim, path.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, path.join("sub")).unwrap();
        directory.create("s").unwrap_err();
        directory.open("s").unwrap_err();
        directory.subdirectory("sub").unwrap_err();
        directory.replace_with("m", b"mine").unwrap();
        assert_eq!(fs::read(path.join("m")).unwrap(), b"mine");
        assert!(!fs::symlink_metadata(path.join("m")).unwrap().is_symlink());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, directory) = Directory::create_unique(temporary.path(), "x", None).unwrap();
        directory.replace_with("m", b"old").unwrap();
        let failed = directory.replace("m", |mut file| {
            file.write_all(b"half of the ne")?;
            Err::<(), _>(io::Error::other("no space"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no space");
        let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["m"]);
        assert_eq!(fs::read(path.join("m")).unwrap(), b"old");
    }

    #[test]
    fn a_renamed_folder_is_still_written() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, directory) = Directory::create_unique(temporary.path(), "x", None).unwrap();
        fs::rename(&path, temporary.path().join("y")).unwrap();
        directory.replace_with("m", b"new").unwrap();
        assert_eq!(fs::read(temporary.path().join("y/m")).unwrap(), b"new");
        assert_eq!(directory.current_path().unwrap(), temporary.path().canonicalize().unwrap().join("y"));
        fs::remove_dir_all(temporary.path().join("y")).unwrap();
        assert_eq!(directory.current_path(), None);
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a test says what it skips")]
    fn the_owner_is_whom_the_caller_names() {
        if !Uid::effective().is_root() {
            println!("skipped: the_owner_is_whom_the_caller_names: only root may give files away");
            return;
        }
        let temporary = tempfile::tempdir().unwrap();
        let owner = Owner { uid: 12_345, gid: 23_456 };
        let (path, directory) =
            Directory::create_unique(&temporary.path().join("runs"), "x", Some(owner)).unwrap();
        directory.create("file").unwrap();
        directory.replace_with("whole", b"").unwrap();
        let own = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
        for path in [temporary.path().join("runs"), path.clone(), path.join("file"), path.join("whole")] {
            assert_eq!(own(&path), (owner.uid, owner.gid), "{}", path.display());
        }
        assert_ne!(own(temporary.path()), (owner.uid, owner.gid));
    }
}
