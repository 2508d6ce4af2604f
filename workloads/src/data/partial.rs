//! A file that has another name until it is whole, so that nobody finds half of it under its own, and a run that fails or is
//! stopped leaves nothing. Yields a writer; what is written is the caller's.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Begins such a name, by which what a killed run left in the cache is cleared away.
pub const PREFIX: &str = "partial-";

/// A file that disappears unless it is given its name.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
}

/// Another name for a file or folder until it is whole. The time is in it because the number of a process is not enough: two
/// containers that share a folder have the same ones.
pub fn name(of: &OsStr) -> OsString {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut name = OsString::from(format!("{PREFIX}{}-{}-", std::process::id(), since.as_nanos()));
    name.push(of);
    name
}

impl Partial {
    /// For what will be called `path`, in the same folder.
    pub fn beside(path: &Path) -> io::Result<Self> {
        Self::create(path.with_file_name(name(path.file_name().unwrap_or_default())))
    }

    /// Under this name of [`name`].
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create_new(&path)?;
        Ok(Self { path, file })
    }

    /// Brings it to the disk, which may say only now that it is full, and gives it its name.
    pub fn keep(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)
    }

    /// How long it is by now.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the renaming it has no such name any more. Otherwise nothing better can be done about a failure.
        let _ = fs::remove_file(&self.path);
    }
}
