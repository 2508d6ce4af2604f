//! Reads small files below a directory: `/` in a running agent, a recorded tree in a test.
//!
//! Yields text of bounded size, or nothing. Only regular files are read and no read can block, because some
//! of the files belong to others. Links of a recorded tree may point out of it.

use std::{
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::{DirEntryExt as _, MetadataExt as _, OpenOptionsExt},
    path::PathBuf,
};

use crate::untrusted::{Shown as _, Untrusted};

/// Largest part of a file that is read. The largest file in use is mountinfo: 300 bytes a mount, 3,000 mounts
/// on a busy container host.
const FILE_BYTES: u64 = 1 << 20;
/// Longest value that is kept of a file with one word or line.
const VALUE_CHARS: usize = 256;
/// Most names that are listed of a directory.
const NAMES: usize = 1024;

/// The directory that stands for `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The guest itself.
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A tree that was recorded on another guest.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The real path of this path below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The file's bytes, up to the limit.
    pub(super) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path(path)).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The file's text; invalid UTF-8 is replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| Untrusted::of_bytes(&bytes).stored().to_owned())
    }

    /// Identifier of this boot.
    pub fn boot_id(&self) -> Option<String> {
        self.value("/proc/sys/kernel/random/boot_id")
    }

    /// The file's only value; none if it is empty.
    pub(super) fn value(&self, path: &str) -> Option<String> {
        self.text(path).and_then(|text| clean(&text))
    }

    /// Target of a link, unresolved.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        clean(target.shown().stored())
    }

    /// Last part of a link's target.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        clean(target.file_name()?.shown().stored())
    }

    /// Whether something is there, readable or not.
    pub fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Inode of a directory or file.
    pub(super) fn inode(&self, path: &str) -> Option<u64> {
        fs::symlink_metadata(self.path(path)).ok().map(|metadata| metadata.ino())
    }

    /// Names and inodes of the directories in a directory, at most `most`, unsorted. Links are left out.
    pub(super) fn directories(&self, path: &str, most: usize) -> Vec<(String, u64)> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let named =
            directories.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.ino())));
        named.take(most).collect()
    }

    /// Names in a directory, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let names = entries.take(NAMES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// Cleans one value for display and attributes: no control characters, no space around it, bounded; none if
/// nothing is left.
pub(super) fn clean(text: &str) -> Option<String> {
    let kept = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let cleaned: String =
        kept.chars().filter(|c| !crate::untrusted::is_unsafe(*c)).take(VALUE_CHARS).collect();
    Some(cleaned).filter(|cleaned| !cleaned.is_empty())
}

/// The observer of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The agent, whose view a program that it starts inherits.
    Own,
    /// The process with this number.
    Process(u32),
}

impl Subject {
    /// Path of a /proc file of the process.
    pub(super) fn file(self, name: &str) -> String {
        match self {
            Subject::Own => format!("/proc/self/{name}"),
            Subject::Process(pid) => format!("/proc/{pid}/{name}"),
        }
    }
}

/// The value after `key:` or `key=` in a text of such lines, unquoted.
pub(super) fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}
