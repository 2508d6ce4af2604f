//! One directory held open. A rename of it does no harm, nor does anything that is put into it under the names of ours.

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

use super::{making, opening, reading};

/// Names that are tried for a file in the making: each may be taken by what somebody has put there.
const MOST_NAMES: u32 = 64;

/// An open directory. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Directory {
    descriptor: Arc<OwnedFd>,
    /// Where it was made, and under which name.
    above: Option<(Arc<OwnedFd>, String)>,
}

impl Directory {
    /// Opens one that is there; links are followed: the caller's own choice.
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

    /// Makes a directory inside that is new. What has the name already is put aside.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        let descriptor = match making::make(self.here(), Path::new(name), Mode::S_IRWXU) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let made = |temporary: &str| making::make(self.here(), Path::new(temporary), Mode::S_IRWXU);
                let (temporary, descriptor) = Self::under_a_free_name(name, made)?;
                self.put(&temporary, name)?;
                descriptor
            }
            made => made?,
        };
        Ok(Self { descriptor: descriptor.into(), above: None })
    }

    /// Makes a file that is not there yet, for reading and writing, by its owner alone.
    ///
    /// # Errors
    /// Something is there, or it cannot be made.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(File::from(opening::open(self.here(), Path::new(name), flags, mode)?))
    }

    /// What lies below, opened to look alone (`O_PATH`): nothing is done to it by that.
    ///
    /// # Errors
    /// Nothing is there, or only behind a link.
    pub fn find(&self, path: &Path) -> io::Result<File> {
        Ok(File::from(opening::open(self.here(), path, OFlag::O_PATH, Mode::empty())?))
    }

    /// The whole of a file below that others may have made: a regular one, of one of these users, of at most so many bytes.
    ///
    /// # Errors
    /// It is none, cannot be opened without waiting, or cannot be read.
    pub fn read(&self, path: &Path, owners: &[u32], bytes: u64) -> io::Result<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let opened = opening::open(self.here(), path, flags, Mode::empty()).map_err(reading::leased)?;
        reading::whole(&File::from(opened), Some(owners), bytes)
    }

    /// Writes a file as a whole: readers see the old one or the new one, also after a power cut. What `write` returns
    /// is passed on.
    ///
    /// # Errors
    /// What `write` returns, or the file cannot be written or be given its name.
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
            // Gives the space back; the error worth telling is the first one.
            self.remove_ours(&temporary, &file).unwrap_or_default();
        })
    }

    /// [`Self::replace`] with bytes at hand.
    ///
    /// # Errors
    /// As above.
    pub fn replace_with(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, |mut file| file.write_all(bytes))
    }

    /// Makes the file that [`Self::finish`] gives its name to, under one that is not its own yet.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self, name: &str) -> io::Result<(String, File)> {
        // One that a failed attempt left behind.
        self.remove(&format!("{name}.tmp")).unwrap_or_default();
        Self::under_a_free_name(name, |temporary| self.create(temporary))
    }

    /// Gives a file that is written its name; what has it already is replaced.
    ///
    /// # Errors
    /// It cannot have the name, or somebody has put something else in its place.
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

    /// Renames. A directory cannot be replaced by a file, nor one that holds something by any other: it changes its name with
    /// what takes its place, and stays if it is not empty.
    fn put(&self, temporary: &str, name: &str) -> io::Result<()> {
        match renameat(self.here(), temporary, self.here(), name) {
            Err(Errno::EISDIR | Errno::ENOTDIR | Errno::ENOTEMPTY | Errno::EEXIST) => {}
            renamed => return Ok(renamed?),
        }
        self.exchange(temporary, name)?;
        let removed = unlinkat(self.here(), temporary, UnlinkatFlags::NoRemoveDir);
        removed.or_else(|_| unlinkat(self.here(), temporary, UnlinkatFlags::RemoveDir)).unwrap_or_default();
        Ok(())
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        let [one, other] = [one, other].map(std::ffi::CString::new);
        let (one, other) = (one?, other?);
        let here = self.here().as_raw_fd();
        // SAFETY: both names live across the call and end in a zero.
        let exchanged = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                here,
                one.as_ptr(),
                here,
                other.as_ptr(),
                libc::RENAME_EXCHANGE,
            )
        };
        if exchanged == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// What has this name is the file that is open here.
    pub fn is_ours(&self, name: &str, file: &File) -> bool {
        let named = fstatat(self.here(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
        named.is_ok_and(|named| {
            file.metadata().is_ok_and(|ours| (named.st_dev, named.st_ino) == (ours.dev(), ours.ino()))
        })
    }

    /// Removes the file that is open here. What else has its name by now is left alone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_ours(&self, name: &str, file: &File) -> io::Result<()> {
        if self.is_ours(name, file) { self.remove(name) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.here(), name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes it where it was made, with the files of these names in it: it was made a moment ago, for nothing. What else is
    /// in it stays, and so does it then.
    pub fn discard<'a>(&self, files: impl IntoIterator<Item = &'a str>) {
        for file in files {
            self.remove(file).unwrap_or_default();
        }
        let Some((above, name)) = &self.above else { return };
        let same =
            |one: &FileStat, other: &FileStat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        let named = fstatat(&**above, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        if named.is_ok_and(|named| fstat(self.here()).is_ok_and(|ours| same(&named, &ours))) {
            unlinkat(&**above, name.as_str(), UnlinkatFlags::RemoveDir).unwrap_or_default();
        }
    }

    /// Lets its owner in again, who may have shut himself out, and the agent with him.
    pub fn open_up(&self) {
        fchmod(self.here(), Mode::S_IRWXU).unwrap_or_default();
    }

    /// Its path now; none if it was deleted, or where /proc is not mounted.
    pub fn current_path(&self) -> Option<PathBuf> {
        let shown = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let path = std::fs::read_link(shown).ok()?;
        let is_marked = path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") && !path.is_dir();
        let gone = is_marked || fstat(self.here()).is_ok_and(|found| found.st_nlink == 0);
        (!gone).then_some(path)
    }
}
