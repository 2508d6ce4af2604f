//! The JPEG files of a run: the user's folder, or a set made once, kept in the user's cache and reused
//! (`file_set`).

use std::{io, path::Path};

pub use super::file_set::FilesError;
use super::{
    file_set::{FileSet, Kind},
    photo::{GENERATOR_VERSION, HEIGHT, Photographer, QUALITY, WIDTH},
};
use crate::digest::Digest;

/// The kind of these files.
pub const IMAGES: Kind =
    Kind { name: "images", what: "pictures", endings: &["jpg", "jpeg"], named: ".jpg or .jpeg" };

/// The `*.jpg` and `*.jpeg` files directly in `folder` (case does not matter), sorted by name.
pub fn open_folder(folder: &Path) -> Result<FileSet, FilesError> {
    IMAGES.open_folder(folder)
}

/// `count` pictures of `seed`, from `cache` if they are there, else made now (about 25 ms each).
pub fn open_generated(cache: &Path, seed: u64, count: u32) -> Result<FileSet, FilesError> {
    let mut photographer = None;
    IMAGES.open_generated(cache, parameters_digest(seed, count), count, |index| {
        let photographer = photographer.get_or_insert_with(|| Photographer::new(seed));
        photographer.picture(u64::from(index)).to_jpeg().map_err(io::Error::other)
    })
}

fn parameters_digest(seed: u64, count: u32) -> Digest {
    let mut digest = Digest::default();
    digest.text("1/f photographs").u64(GENERATOR_VERSION).u64(seed).u64(u64::from(count));
    digest.u64(u64::from(WIDTH)).u64(u64::from(HEIGHT)).u64(u64::from(QUALITY));
    digest
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FilesError, open_folder, open_generated};

    #[test]
    fn a_folder_gives_its_jpegs_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.JPG", "a.jpeg", "c.png", "d.jpg"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("e.jpg")).unwrap();
        let files = open_folder(folder.path()).unwrap();
        let names: Vec<_> = files.paths.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.jpeg", "b.JPG", "d.jpg"]);

        fs::write(folder.path().join("d.jpg"), "longer").unwrap();
        assert_ne!(open_folder(folder.path()).unwrap().digest, files.digest, "another size, another set");
    }

    #[test]
    fn an_empty_and_an_absent_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = open_folder(folder.path()).unwrap_err();
        assert!(matches!(error, FilesError::Empty { .. }), "{error}");
        let error = open_folder(&folder.path().join("absent")).unwrap_err();
        assert!(matches!(error, FilesError::Folder { .. }), "{error}");
    }

    #[test]
    fn a_generated_set_is_made_once_and_mended() {
        let cache = tempfile::tempdir().unwrap();
        let made = open_generated(cache.path(), 5, 1).unwrap();
        let first = fs::read(&made.paths[0]).unwrap();
        let made_at = fs::metadata(&made.paths[0]).unwrap().modified().unwrap();

        let again = open_generated(cache.path(), 5, 1).unwrap();
        assert_eq!(again.paths, made.paths);
        assert_eq!(fs::metadata(&made.paths[0]).unwrap().modified().unwrap(), made_at, "not written again");

        fs::remove_file(&made.paths[0]).unwrap();
        open_generated(cache.path(), 5, 1).unwrap();
        assert_eq!(fs::read(&made.paths[0]).unwrap(), first);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "no partial folder stays behind");

        let other = open_generated(cache.path(), 6, 1).unwrap();
        assert_ne!(other.digest, made.digest);
        assert_ne!(fs::read(&other.paths[0]).unwrap(), first);
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("a file");
        fs::write(&cache, "").unwrap();
        let error = open_generated(&cache, 1, 1).unwrap_err();
        assert!(matches!(error, FilesError::Write { .. }), "{error}");
    }
}
