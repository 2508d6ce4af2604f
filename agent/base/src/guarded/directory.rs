//! A directory held open by its descriptor: neither renaming it nor files that others put into it under our
//! names do any harm.

use std::{
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat},
    sys::stat::{FileStat, Mode, fchmod, fstat, fstatat},
    unistd::{UnlinkatFlags, fsync, unlinkat},
};

use super::{one, opening, reading};

/// Most names tried for a temporary file: others may have taken each.
const MOST_NAMES: u32 = 64;

/// An open directory. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Directory {
    descriptor: Arc<OwnedFd>,
    /// Directory in which it was made, and its name there.
    above: Option<(Arc<OwnedFd>, String)>,
}

impl Directory {
    /// Opens an existing directory; links are followed, as the caller's own choice.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let descriptor = openat(AT_FDCWD, path, flags, Mode::empty())?;
        Ok(Self { descriptor: descriptor.into(), above: None })
    }

    pub(super) fn made(descriptor: OwnedFd, above: OwnedFd, name: String) -> Self {
        Self { descriptor: descriptor.into(), above: Some((above.into(), name)) }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Makes a new directory inside. An entry that has the name already is put aside.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        let descriptor = match one::make(self.here(), Path::new(name), Mode::S_IRWXU) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let made = |temporary: &str| one::make(self.here(), Path::new(temporary), Mode::S_IRWXU);
                let (temporary, descriptor) = Self::under_a_free_name(name, made)?;
                self.put(&temporary, name)?;
                descriptor
            }
            made => made?,
        };
        Ok(Self { descriptor: descriptor.into(), above: None })
    }

    /// Makes a new file, readable and writable by its owner alone.
    ///
    /// # Errors
    /// The name is taken, or the file cannot be made.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(File::from(opening::open(self.here(), Path::new(name), flags, mode)?))
    }

    /// Opens an entry below with `O_PATH`, which does nothing to it.
    ///
    /// # Errors
    /// Nothing is there, or only behind a link.
    pub fn find(&self, path: &Path) -> io::Result<File> {
        Ok(File::from(opening::open(self.here(), path, OFlag::O_PATH, Mode::empty())?))
    }

    /// Whole content of a file below that others may have created: regular, owned by one of these users, of
    /// at most `bytes` bytes.
    ///
    /// # Errors
    /// It is not such a file, cannot be opened without waiting, or cannot be read.
    pub fn read(&self, path: &Path, owners: &[u32], bytes: u64) -> io::Result<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let opened = opening::open(self.here(), path, flags, Mode::empty()).map_err(reading::leased)?;
        reading::whole(&File::from(opened), Some(owners), bytes)
    }

    /// Writes a file as a whole: readers see the old one or the new one, also after a power cut. Returns the
    /// result of `write`.
    ///
    /// # Errors
    /// An error of `write`, or the file cannot be written or renamed.
    pub fn replace<T, E: From<io::Error>>(
        &self,
        name: &str,
        write: impl FnOnce(File) -> Result<T, E>,
    ) -> Result<T, E> {
        let (temporary, file) = self.begin(name)?;
        let finish = || -> Result<T, E> {
            let written = write(file.try_clone()?)?;
            file.sync_all()?;
            self.finish(&temporary, &file, name)?;
            fsync(self.here()).map_err(io::Error::from)?;
            Ok(written)
        };
        finish().inspect_err(|_| {
            // Frees the space; the first error is the one to report.
            self.remove_ours(&temporary, &file).unwrap_or_default();
        })
    }

    /// [`Self::replace`] with the given bytes.
    ///
    /// # Errors
    /// As above.
    pub fn replace_with(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, |mut file| file.write_all(bytes))
    }

    /// Makes a file under a temporary name; [`Self::finish`] gives it its own.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self, name: &str) -> io::Result<(String, File)> {
        // Left behind by a failed attempt.
        self.remove(&format!("{name}.tmp")).unwrap_or_default();
        Self::under_a_free_name(name, |temporary| self.create(temporary))
    }

    /// Gives a written file its name, replacing an existing one.
    ///
    /// # Errors
    /// The name is not possible, or another process has put a different file there.
    pub fn finish(&self, temporary: &str, file: &File, name: &str) -> io::Result<()> {
        self.put(temporary, name)?;
        if self.is_ours(name, file) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "another program put something else in its place"))
    }

    fn under_a_free_name<T>(name: &str, make: impl Fn(&str) -> io::Result<T>) -> io::Result<(String, T)> {
        for attempt in 1..=MOST_NAMES {
            let temporary =
                if attempt == 1 { format!("{name}.tmp") } else { format!("{name}.tmp-{attempt}") };
            match make(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return Ok((temporary, made?)),
            }
        }
        Err(Errno::EEXIST.into())
    }

    /// Renames. A directory cannot be replaced by a file, nor one that holds something by anything: it swaps
    /// names with its replacement, and stays if it is not empty.
    fn put(&self, temporary: &str, name: &str) -> io::Result<()> {
        match renameat(self.here(), temporary, self.here(), name) {
            Err(Errno::EISDIR | Errno::ENOTDIR | Errno::ENOTEMPTY | Errno::EEXIST) => {}
            renamed => return Ok(renamed?),
        }
        renamed(self.here(), (temporary, name), libc::RENAME_EXCHANGE)?;
        let removed = unlinkat(self.here(), temporary, UnlinkatFlags::NoRemoveDir);
        removed.or_else(|_| unlinkat(self.here(), temporary, UnlinkatFlags::RemoveDir)).unwrap_or_default();
        Ok(())
    }

    /// Whether this name leads to this open file.
    pub fn is_ours(&self, name: &str, file: &File) -> bool {
        let named = fstatat(self.here(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
        named.is_ok_and(|named| {
            file.metadata().is_ok_and(|ours| (named.st_dev, named.st_ino) == (ours.dev(), ours.ino()))
        })
    }

    /// Removes this open file. Another file that has its name by now is left alone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_ours(&self, name: &str, file: &File) -> io::Result<()> {
        if self.is_ours(name, file) { self.remove(name) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.here(), name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes the directory, made a moment ago in vain, with the files of these names in it. Other files in
    /// it stay, and then so does the directory.
    pub fn discard<'a>(&self, files: impl IntoIterator<Item = &'a str>) {
        for file in files {
            self.remove(file).unwrap_or_default();
        }
        if let Some((above, name)) = self.still_above() {
            unlinkat(above, name, UnlinkatFlags::RemoveDir).unwrap_or_default();
        }
    }

    /// The name under which the directory was made.
    pub fn made_as(&self) -> Option<&str> {
        self.above.as_ref().map(|(_, name)| name.as_str())
    }

    /// Gives the directory another name where it was made, unless somebody has renamed or moved it, or that
    /// name is taken.
    ///
    /// # Errors
    /// It keeps the name that it has.
    pub fn rename(&self, name: &str) -> io::Result<()> {
        let (above, before) = self.still_above().ok_or(Errno::ENOENT)?;
        renamed(above, (before, name), libc::RENAME_NOREPLACE)
    }

    /// Where it was made, and its name, if it still has that.
    fn still_above(&self) -> Option<(BorrowedFd<'_>, &str)> {
        let (above, name) = self.above.as_ref()?;
        let same =
            |one: &FileStat, other: &FileStat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        let named = fstatat(&**above, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_ours = fstat(self.here()).is_ok_and(|ours| same(&named, &ours));
        is_ours.then_some((above.as_fd(), name.as_str()))
    }

    /// Restores the owner's permissions: without them neither the owner nor the agent can enter.
    pub fn open_up(&self) {
        fchmod(self.here(), Mode::S_IRWXU).unwrap_or_default();
    }

    /// Current path; none if it was deleted, or where /proc is not mounted.
    pub fn current_path(&self) -> Option<PathBuf> {
        let shown = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let path = std::fs::read_link(shown).ok()?;
        let is_marked = path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") && !path.is_dir();
        let gone = is_marked || fstat(self.here()).is_ok_and(|found| found.st_nlink == 0);
        (!gone).then_some(path)
    }
}

/// Renames within a directory in a way that only the kernel's newer call has.
fn renamed(within: BorrowedFd<'_>, (from, to): (&str, &str), how: libc::c_uint) -> io::Result<()> {
    let [from, to] = [from, to].map(std::ffi::CString::new);
    let (from, to, within) = (from?, to?, within.as_raw_fd());
    // SAFETY: both names live across the call and end in a zero.
    let done = unsafe { libc::syscall(libc::SYS_renameat2, within, from.as_ptr(), within, to.as_ptr(), how) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
