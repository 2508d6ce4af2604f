//! Where the pictures of a training job lie: one file each, or many in a file. Yields the bytes of one picture with its class,
//! by its place in an order that nothing but the files decides. What is read when, the loader decides.

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
    /// How many there are, those that will turn out to be damaged too.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The picture at that place, or why there is none. An error is the machine's, and no other picture would be any help.
    fn read(&self, place: usize) -> Result<Result<Picture, String>, TrainError>;

    /// What the picture at that place is called.
    fn name(&self, place: usize) -> PathBuf;

    /// The files that all of it lies in.
    fn files(&self) -> Vec<&Path>;
}

/// A store, and what tells it from others.
pub struct Opened {
    /// The pictures.
    pub store: Box<dyn Store>,
    /// For reports: `folder`, `tfrecord` or `tar`.
    pub kind: &'static str,
    /// Equal for stores of the same names, sizes and labels.
    pub digest: Digest,
    /// What is left out already, with the reason.
    pub skipped: Skipped,
}

/// Opens what `path` names: a shard or a folder of them, or a folder of JPEG files.
pub fn open(path: &Path, model: &Model) -> Result<Opened, Error> {
    if let Some(opened) = shards::open(path, model)? {
        return Ok(opened);
    }
    let pictures = folder::open(path, model)?;
    let digest = pictures.digest;
    Ok(Opened { store: Box::new(pictures), kind: "folder", digest, skipped: Skipped::new() })
}

/// Asks the kernel to forget the files' pages, so that they come from the disk; how many it could not ask for.
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
