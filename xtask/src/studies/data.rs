//! Files that rows read: flights for h2o, pictures for training. The workloads make them when a row first
//! needs them; they are removed at the end of the call, since at the studies' sizes they take 16 and 6 GB.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::cache::remove_folder;

/// Files shared by the rows of one call.
pub(super) struct Data {
    /// What `h2o generate` writes and `h2o parse` reads.
    pub(super) flights: PathBuf,
    /// Shards of labelled JPEG pictures.
    pub(super) shards: PathBuf,
    /// Whether this call has made the flights completely.
    pub(super) has_flights: bool,
    /// Number of pictures that this call has made.
    pub(super) pictures: u32,
}

impl Data {
    /// Removes the files of earlier calls that were killed.
    pub(super) fn new(folder: &Path) -> Self {
        let (flights, shards) = (folder.join("flights.csv"), folder.join("shards"));
        Self { flights, shards, has_flights: false, pictures: 0 }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // Also removes files of a killed call. If that fails, they stay.
        let _ = fs::remove_file(&self.flights);
        let _ = remove_folder(&self.shards);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Data;

    #[test]
    fn files_are_gone_with_the_call() {
        let folder = tempfile::tempdir().unwrap();
        let data = Data::new(folder.path());
        fs::write(&data.flights, "left by a call that was killed").unwrap();
        fs::create_dir(&data.shards).unwrap();
        fs::write(data.shards.join("pictures"), "as well").unwrap();
        drop(data);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(Data::new(folder.path()));
    }
}
