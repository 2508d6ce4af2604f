//! Storage of a training job's pictures: one file each, or many in a file. Yields the bytes of one picture
//! with its class, by its place in an order that only the files decide. The loader decides when to read.

use std::{
    fs::File,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{Model, error::TrainError, folder, shards};
use crate::{
    data::{file_set::Skipped, tfrecord::Picture},
    digest::Digest,
    error::Error,
};

/// All pictures of a job.
pub trait Store: Send + Sync {
    /// Number of pictures, including those that will turn out to be damaged.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Picture `place`, or why there is none. An error is the machine's: no other picture would help.
    fn read(&self, place: usize) -> Result<Result<Picture, String>, TrainError>;

    /// Name of the picture at index `place`.
    fn name(&self, place: usize) -> PathBuf;

    /// All files of the store.
    fn files(&self) -> Vec<&Path>;
}

/// An opened store and its digest.
pub struct Opened {
    /// The pictures.
    pub store: Box<dyn Store>,
    /// Kind for reports: `folder`, `tfrecord` or `tar`.
    pub kind: &'static str,
    /// Digest of names, sizes and labels.
    pub digest: Digest,
    /// Pictures left out so far, with the reason.
    pub skipped: Skipped,
}

/// Opens the data at `path`: a shard or a folder of them, or a folder of JPEG files.
pub fn open(path: &Path, model: &Model) -> Result<Opened, Error> {
    if let Some(opened) = shards::open(path, model)? {
        return Ok(opened);
    }
    let pictures = folder::open(path, model)?;
    let digest = pictures.digest;
    Ok(Opened { store: Box::new(pictures), kind: "folder", digest, skipped: Skipped::new() })
}

/// Asks the kernel to forget the files' pages, so that the disk is read; counts failed files.
pub fn forget(store: &dyn Store) -> usize {
    let files = store.files();
    let forgotten = files.iter().filter(|path| {
        let asked = File::open(path).and_then(|file| {
            // Pages that were never written cannot be forgotten.
            file.sync_data()?;
            Ok(posix_fadvise(file.as_fd(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
        });
        asked.is_ok()
    });
    files.len() - forgotten.count()
}
