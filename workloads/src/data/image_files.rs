//! The JPEG files of a run: the user's folder, or a set made once, kept in the user's cache and reused. A set
//! appears in the cache whole or not at all (made under another name, then renamed), so that a broken-off or a
//! second run at the same time does no harm. It does not read the pictures ahead: that is part of a request.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::photo::{GENERATOR_VERSION, HEIGHT, Photographer, QUALITY, WIDTH};
use crate::{digest::Digest, progress};

/// A temporary folder or file older than this was left by a run that was killed.
const ABANDONED: Duration = Duration::from_hours(1);

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot read folder: {path} ({source})")]
    Folder { path: PathBuf, source: io::Error },
    #[error("no .jpg or .jpeg file in folder: {path}")]
    Empty { path: PathBuf },
    #[error("no place for generated pictures: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    #[error("cannot write generated pictures: {path} ({source})")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot encode generated picture: {reason}")]
    Encode { reason: String },
}

impl FilesError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Empty { .. } => {
                "name a folder of JPEG files with --data, or leave it out to use generated pictures"
            }
            Self::NoCache | Self::Write { .. } => {
                "set XDG_CACHE_HOME to a folder that can be written to, or name a folder of JPEG files with --data"
            }
            Self::Encode { .. } => "this is a defect of guestscope-workloads, please report it",
        }
    }
}

/// The files in the order in which requests take them, and what tells this set from another.
#[derive(Debug)]
pub struct ImageFiles {
    pub paths: Vec<PathBuf>,
    /// Generated: of the parameters, which decide every byte. The user's: of the names and sizes, because reading
    /// all content here would warm the page cache that a run may want to find cold.
    pub digest: Digest,
}

/// The `*.jpg` and `*.jpeg` files directly in `folder` (case does not matter), sorted by name.
pub fn open_folder(folder: &Path) -> Result<ImageFiles, FilesError> {
    let unreadable = |source| FilesError::Folder { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_jpeg = path
            .extension()
            .is_some_and(|kind| kind.eq_ignore_ascii_case("jpg") || kind.eq_ignore_ascii_case("jpeg"));
        if is_jpeg && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(FilesError::Empty { path: folder.to_owned() });
    }
    paths.sort();
    let mut digest = Digest::default();
    for path in &paths {
        let bytes = fs::metadata(path).map_err(unreadable)?.len();
        digest.text(&path.file_name().unwrap_or_default().to_string_lossy()).u64(bytes);
    }
    Ok(ImageFiles { paths, digest })
}

/// The cache of this user: `$XDG_CACHE_HOME/guestscope`, else `~/.cache/guestscope`.
pub fn cache_folder() -> Result<PathBuf, FilesError> {
    // The XDG base directory specification says to ignore a relative path.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("guestscope")).ok_or(FilesError::NoCache)
}

/// `count` pictures of `seed`, from `cache` if they are there, else made now (about 25 ms each).
pub fn open_generated(cache: &Path, seed: u64, count: u32) -> Result<ImageFiles, FilesError> {
    let digest = parameters_digest(seed, count);
    let folder = cache.join(format!("images-{digest}"));
    if !is_complete(&folder, count) {
        generate(cache, &folder, seed, count)?;
    }
    Ok(ImageFiles { paths: (0..count).map(|index| picture_path(&folder, index)).collect(), digest })
}

fn picture_path(folder: &Path, index: u32) -> PathBuf {
    folder.join(format!("{index:05}.jpg"))
}

fn is_complete(folder: &Path, count: u32) -> bool {
    (0..count).all(|index| picture_path(folder, index).is_file())
}

fn parameters_digest(seed: u64, count: u32) -> Digest {
    let mut digest = Digest::default();
    digest.text("1/f photographs").u64(GENERATOR_VERSION).u64(seed).u64(u64::from(count));
    digest.u64(u64::from(WIDTH)).u64(u64::from(HEIGHT)).u64(u64::from(QUALITY));
    digest
}

fn generate(cache: &Path, folder: &Path, seed: u64, count: u32) -> Result<(), FilesError> {
    let failed = |path: &Path, source| FilesError::Write { path: path.to_owned(), source };
    fs::create_dir_all(cache).map_err(|source| failed(cache, source))?;
    remove_abandoned(cache);
    let partial = cache.join(format!("partial-{}-{}", std::process::id(), parameters_digest(seed, count)));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir(&partial).map_err(|source| failed(&partial, source))?;
    let made = write_pictures(&partial, seed, count).and_then(|()| publish(&partial, folder, count));
    if made.is_err() {
        // Nothing better can be done about a folder that cannot be removed: it is abandoned, see above.
        let _ = fs::remove_dir_all(&partial);
    }
    made
}

fn write_pictures(folder: &Path, seed: u64, count: u32) -> Result<(), FilesError> {
    let photographer = Photographer::new(seed);
    let bar = progress::bar(u64::from(count), "pictures made (once, kept in the cache)");
    for index in 0..count {
        let jpeg = photographer
            .picture(u64::from(index))
            .to_jpeg()
            .map_err(|error| FilesError::Encode { reason: error.to_string() })?;
        let path = picture_path(folder, index);
        fs::write(&path, jpeg).map_err(|source| FilesError::Write { path, source })?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Gives the finished folder its name. Where another run was faster, its folder stays: it holds the same bytes. One
/// from which somebody has deleted files is replaced.
fn publish(partial: &Path, folder: &Path, count: u32) -> Result<(), FilesError> {
    if fs::rename(partial, folder).is_ok() {
        return Ok(());
    }
    let failed = |source| FilesError::Write { path: folder.to_owned(), source };
    if is_complete(folder, count) {
        return fs::remove_dir_all(partial).map_err(failed);
    }
    // If this fails, so does the renaming, which is reported.
    let _ = fs::remove_dir_all(folder);
    fs::rename(partial, folder).map_err(failed)
}

/// Removes what runs that were killed left half made in the cache: pictures and flights.
pub fn remove_abandoned(cache: &Path) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > ABANDONED));
        if old && entry.file_name().to_string_lossy().starts_with("partial-") {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }
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
