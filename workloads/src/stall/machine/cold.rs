//! An uncached file on a real disk. Yields the open file; its name is removed at once, so nothing stays
//! behind however the program ends. It knows nothing of caches in the disk or the host.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    thread,
    time::Duration,
};

use nix::{
    fcntl::{PosixFadviseAdvice, posix_fadvise},
    sys::statfs::{TMPFS_MAGIC, fstatfs},
};

use super::mapping::{Mapping, page_bytes};
use crate::{data::random::Random, stall::error::StallError};

/// How often the kernel is asked to forget remaining pages. Writing back takes a disk milliseconds.
const TRIES: u32 = 50;

/// The file.
#[derive(Debug)]
pub struct ColdFile {
    pub file: File,
    pages: usize,
}

impl ColdFile {
    /// Writes `pages` pages into a new file in `folder`; opens it for reading, with O_DIRECT if `direct`.
    pub fn create(kind: &'static str, folder: &Path, pages: usize, direct: bool) -> Result<Self, StallError> {
        let path = folder.join(format!(".guestscope-{kind}-{}", std::process::id()));
        let failed = |action| {
            let path = path.clone();
            move |source| StallError::File { action, path, source }
        };
        let mut written = File::create_new(&path).map_err(failed("create"))?;
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        fs::remove_file(&path).map_err(failed("remove"))?;
        let file = opened.map_err(failed(if direct { "read past the cache" } else { "open" }))?;
        let system = fstatfs(&file).map_err(StallError::call("fstatfs"))?;
        if system.filesystem_type() == TMPFS_MAGIC {
            return Err(StallError::NotADisk { kind, folder: folder.to_owned() });
        }
        // Random bytes: a disk that compresses or leaves zeros out would have nothing to read.
        let mut random = Random::new(pages as u64, 0);
        let mut page = Vec::with_capacity(page_bytes());
        for _ in 0..pages {
            page.clear();
            page.extend((0..page_bytes() / 8).flat_map(|_| random.u64().to_le_bytes()));
            written.write_all(&page).map_err(failed("write"))?;
        }
        written.sync_all().map_err(failed("write"))?;
        Ok(Self { file, pages })
    }

    /// Makes the kernel forget the file's pages. Returns the number of pages that it keeps.
    pub fn forget(&self) -> Result<usize, StallError> {
        let mapping = Mapping::of_file(&self.file, self.pages)?;
        let mut left = self.pages;
        for _ in 0..TRIES {
            posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .map_err(StallError::call("posix_fadvise"))?;
            left = mapping.resident()?;
            if left == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(left)
    }
}
