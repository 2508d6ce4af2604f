//! Making directories where others may replace them at any moment.
//!
//! mkdir(2) gives no descriptor, so a directory is made by name and opened by name. The opened one is
//! accepted only if it is empty and belongs to the user of this thread's files: one that was moved there in
//! between either holds something, or is that user's own.

use std::{
    io,
    path::{Path, PathBuf},
};

use nix::{errno::Errno, sys::stat::Mode};

use super::{Directory, one::make, way};

/// Most folders of one second with the same name before making another is refused.
const MOST_SUFFIXES: u32 = 10_000;

/// Makes `parent/name`, or `parent/name-2`, ..., the first that is free, for its owner alone, and the missing
/// parents. A link in `parent` is followed if it is root's or the caller's own; the folder itself is never a
/// link. All is made with the rights of this thread.
///
/// # Errors
/// The path that failed, with the error.
pub fn create_unique(parent: &Path, name: &str) -> Result<(PathBuf, Directory), (PathBuf, io::Error)> {
    let above = way::open_or_make(parent)?;
    for suffix in 1..=MOST_SUFFIXES {
        let name = if suffix == 1 { name.to_owned() } else { format!("{name}-{suffix}") };
        let path = parent.join(&name);
        match make(&above, Path::new(&name), Mode::S_IRWXU) {
            Ok(made) => return Ok((path, Directory::made(made, above, name))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((path, error)),
        }
    }
    Err((parent.join(name), Errno::EEXIST.into()))
}
