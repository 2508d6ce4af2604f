//! A file that has another name until it is complete: half of it is never found under its own name, and a
//! failed or stopped run leaves nothing. Yields a writer; the caller decides the content.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Prefix of such names, by which files left in the cache by killed runs are found.
pub const PREFIX: &str = "partial-";

/// A file that is removed unless it is given its name.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
}

/// A temporary name for a file or folder. It contains the time, since the process number is not enough: two
/// containers that share a folder have the same numbers.
pub fn name(of: &OsStr) -> OsString {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut name = OsString::from(format!("{PREFIX}{}-{}-", std::process::id(), since.as_nanos()));
    name.push(of);
    name
}

impl Partial {
    /// A file that will be renamed to `path`, in the same folder.
    pub fn beside(path: &Path) -> io::Result<Self> {
        Self::create(path.with_file_name(name(path.file_name().unwrap_or_default())))
    }

    /// A file under a name made by [`name`].
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create_new(&path)?;
        Ok(Self { path, file })
    }

    /// Syncs it to the disk, which may report only now that it is full, and gives it its name.
    pub fn keep(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)
    }

    /// Its length so far.
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
        // After the renaming no such name exists; nothing better can be done about another failure.
        let _ = fs::remove_file(&self.path);
    }
}
