//! The input files of a run, a kind for each workload: the user's folder, or a set made once, kept in the
//! user's cache and reused. A set appears in the cache whole or not at all (made under another name, then
//! renamed), so that an interrupted run or a second one at the same time does no harm. It does not read the
//! files ahead: that is part of a request.
//!
//! One of the user's files that cannot be used is left out, with the reason, and the next one takes its
//! place: the files alone decide which requests read which of them. The first request that reaches it pays
//! for the attempt. A made file that cannot be used ends the run.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::partial;
use crate::{digest::Digest, progress};

/// A temporary folder or file older than this was left by a run that was killed.
const ABANDONED: Duration = Duration::from_hours(1);

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot read folder: {path} ({source})")]
    Folder { path: PathBuf, source: io::Error },
    #[error("no {named} file in folder: {path}")]
    Empty { path: PathBuf, named: &'static str },
    #[error("no place for generated files: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    #[error("cannot write generated {what}: {path} ({source})")]
    Write { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write a shard: {path} ({source})")]
    Shard { path: PathBuf, source: io::Error },
    #[error("no picture in the folder can be packed: {path} ({count} were tried, the first: {first})")]
    NothingPacked { path: PathBuf, count: usize, first: String },
    #[error("shards are there already: {path}")]
    ShardsThere { path: PathBuf },
    #[error("shards of two kinds, tfrecord and tar: {path}")]
    TwoKinds { path: PathBuf },
    #[error("interrupted after {shards} shards: {path}")]
    Interrupted { path: PathBuf, shards: u32 },
    #[error("cannot generate {what}: {reason}")]
    Generate { what: &'static str, reason: String },
    #[error("cannot read file: {path} ({source})")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use a generated file: {path} ({reason})")]
    Unusable { path: PathBuf, reason: String },
    #[error("no file of {what} can be used: {path} ({reason}), the first of {count}")]
    NothingUsable { what: &'static str, path: PathBuf, reason: String, count: usize },
}

impl FilesError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Empty { .. } => {
                "name a folder of such files with --data, or leave it out to use generated ones"
            }
            Self::NoCache | Self::Write { .. } => {
                "set XDG_CACHE_HOME to a folder that can be written to and has room, or name a folder of files with --data"
            }
            Self::Shard { .. } => "name a folder with --output that can be written to and has room",
            Self::NothingPacked { .. } => {
                "name a folder of whole JPEG files with --data, or make some with --generate"
            }
            Self::ShardsThere { .. } => {
                "what reads the folder would take both: remove it, or name another one with --output"
            }
            Self::TwoKinds { .. } => "name a folder with --data that has one kind, or one shard",
            Self::Interrupted { .. } => "remove the folder and start again; each shard in it is whole",
            Self::Read { .. } => {
                "see whether the disk, or the number of open files (ulimit -n), is at its end"
            }
            Self::Unusable { .. } => "remove it: the files in the cache are made anew once one is missing",
            Self::NothingUsable { .. } => {
                "repair them or name another folder (--help says what files are like); without --data they are generated"
            }
            Self::Generate { .. } => "this is a defect of guestscope-workloads, please report it",
        }
    }
}

/// Files that were left out, and why.
pub type Skipped = BTreeMap<PathBuf, String>;

/// The files in the order in which requests take them, and a digest that identifies the set.
#[derive(Clone, Debug)]
pub struct FileSet {
    what: &'static str,
    pub paths: Vec<PathBuf>,
    /// Made files: digest of the parameters, which decide every byte. The user's: of the names and sizes,
    /// since reading all content here would warm the page cache that a run may want cold.
    pub digest: Digest,
    /// The user's files left out so far, shared by all clones; none if every file has to be usable.
    skipped: Option<Arc<Mutex<Skipped>>>,
}

impl FileSet {
    /// What `understand` makes of file number `place`, counted round and round through all files, or of the
    /// next one that it can use. It yields the reason if a file cannot be used.
    pub fn read_at<T, E: From<FilesError>>(
        &self,
        place: u64,
        mut understand: impl FnMut(&[u8]) -> Result<Result<T, String>, E>,
    ) -> Result<T, E> {
        let count = self.paths.len();
        for more in 0..count {
            let path = &self.paths[((place % count as u64) as usize + more) % count];
            if self.is_skipped(path) {
                continue;
            }
            let understood = match content(path)? {
                Ok(content) => understand(&content)?,
                Err(reason) => Err(reason),
            };
            match understood {
                Ok(understood) => return Ok(understood),
                Err(reason) => self.skip(path, reason)?,
            }
        }
        let skipped = self.skipped();
        let (path, reason) = skipped.into_iter().next().unwrap_or_default();
        Err(FilesError::NothingUsable { what: self.what, path, reason, count }.into())
    }

    /// The files that were left out up to now.
    pub fn skipped(&self) -> Skipped {
        self.locked().map(|skipped| skipped.clone()).unwrap_or_default()
    }

    fn is_skipped(&self, path: &Path) -> bool {
        self.locked().is_some_and(|skipped| skipped.contains_key(path))
    }

    fn skip(&self, path: &Path, reason: String) -> Result<(), FilesError> {
        let path = path.to_owned();
        let Some(mut skipped) = self.locked() else { return Err(FilesError::Unusable { path, reason }) };
        skipped.insert(path, reason);
        Ok(())
    }

    fn locked(&self) -> Option<MutexGuard<'_, Skipped>> {
        self.skipped.as_ref().map(|skipped| skipped.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The content of a file, or the reason if the file itself is at fault.
pub fn content(path: &Path) -> Result<Result<Vec<u8>, String>, FilesError> {
    own_fault(path, fs::read(path))
}

/// The result of reading a file, or the reason if the file itself is at fault. If the machine is short of
/// something, another file would not help, and leaving this one out would change the work.
pub fn own_fault<T>(path: &Path, read: io::Result<T>) -> Result<Result<T, String>, FilesError> {
    use io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};
    match read {
        Ok(content) => Ok(Ok(content)),
        Err(source) if matches!(source.kind(), NotFound | PermissionDenied | IsADirectory) => {
            Ok(Err(source.to_string()))
        }
        Err(source) => Err(FilesError::Read { path: path.to_owned(), source }),
    }
}

/// Whether a file is there, or a link to nothing: a missing file, left out by name when a request reaches it.
pub fn is_file_or_missing(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A kind of input files.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Prefix of its folders' names in the cache.
    pub name: &'static str,
    /// Name for people, in the plural.
    pub what: &'static str,
    /// Endings of file names, without the dot, in lower case; made files have the first.
    pub endings: &'static [&'static str],
    /// The endings in words.
    pub named: &'static str,
}

impl Kind {
    /// The files of this kind directly in `folder` (the case of an ending does not matter), sorted by name.
    pub fn open_folder(&self, folder: &Path) -> Result<FileSet, FilesError> {
        let unreadable = |source| FilesError::Folder { path: folder.to_owned(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_of_kind = path
                .extension()
                .is_some_and(|ending| self.endings.iter().any(|known| ending.eq_ignore_ascii_case(known)));
            if is_of_kind && is_file_or_missing(&path) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(FilesError::Empty { path: folder.to_owned(), named: self.named });
        }
        paths.sort();
        let mut digest = Digest::default();
        for path in &paths {
            let bytes = fs::metadata(path).map_or(0, |file| file.len());
            digest.text(&path.file_name().unwrap_or_default().to_string_lossy()).u64(bytes);
        }
        Ok(FileSet { what: self.what, paths, digest, skipped: Some(Arc::default()) })
    }

    /// `count` files identified by `digest`: from `cache` if they are there, else made now by `make`, which
    /// yields the content of the file with a given number.
    pub fn open_generated(
        &self,
        cache: &Path,
        digest: Digest,
        count: u32,
        make: impl FnMut(u32) -> io::Result<Vec<u8>>,
    ) -> Result<FileSet, FilesError> {
        let folder = cache.join(format!("{}-{digest}", self.name));
        if !self.is_complete(&folder, count) {
            self.generate(cache, &folder, count, make)?;
        }
        let paths = (0..count).map(|place| self.path(&folder, place)).collect();
        Ok(FileSet { what: self.what, paths, digest, skipped: None })
    }

    fn path(&self, folder: &Path, place: u32) -> PathBuf {
        folder.join(format!("{place:05}.{}", self.endings[0]))
    }

    fn is_complete(&self, folder: &Path, count: u32) -> bool {
        (0..count).all(|place| self.path(folder, place).is_file())
    }

    fn write_error(&self, path: &Path, source: io::Error) -> FilesError {
        FilesError::Write { what: self.what, path: path.to_owned(), source }
    }

    fn generate(
        &self,
        cache: &Path,
        folder: &Path,
        count: u32,
        make: impl FnMut(u32) -> io::Result<Vec<u8>>,
    ) -> Result<(), FilesError> {
        fs::create_dir_all(cache).map_err(|source| self.write_error(cache, source))?;
        remove_abandoned(cache);
        let partial = cache.join(partial::name(folder.file_name().unwrap_or_default()));
        fs::create_dir(&partial).map_err(|source| self.write_error(&partial, source))?;
        let made =
            self.write_files(&partial, count, make).and_then(|()| self.publish(&partial, folder, count));
        if made.is_err() {
            // If removal fails, the folder counts as abandoned, see above.
            let _ = fs::remove_dir_all(&partial);
        }
        made
    }

    fn write_files(
        &self,
        folder: &Path,
        count: u32,
        mut make: impl FnMut(u32) -> io::Result<Vec<u8>>,
    ) -> Result<(), FilesError> {
        let bar = progress::bar(u64::from(count), format!("{} made (once, kept in the cache)", self.what));
        for place in 0..count {
            let failed =
                |error: io::Error| FilesError::Generate { what: self.what, reason: error.to_string() };
            let content = make(place).map_err(failed)?;
            let path = self.path(folder, place);
            fs::write(&path, content).map_err(|source| self.write_error(&path, source))?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Gives the finished folder its name. If another run was faster, its folder stays: it holds the same
    /// bytes. A folder from which files were deleted is replaced.
    fn publish(&self, partial: &Path, folder: &Path, count: u32) -> Result<(), FilesError> {
        if fs::rename(partial, folder).is_ok() {
            return Ok(());
        }
        let failed = |source| self.write_error(folder, source);
        if self.is_complete(folder, count) {
            return fs::remove_dir_all(partial).map_err(failed);
        }
        // If this fails, so does the renaming, which is reported.
        let _ = fs::remove_dir_all(folder);
        fs::rename(partial, folder).map_err(failed)
    }
}

/// The cache of this user: `$XDG_CACHE_HOME/guestscope`, else `~/.cache/guestscope`.
pub fn cache_folder() -> Result<PathBuf, FilesError> {
    // The XDG base directory specification says to ignore a relative path.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("guestscope")).ok_or(FilesError::NoCache)
}

/// Removes what killed runs left half made in the cache: input files and flights.
pub fn remove_abandoned(cache: &Path) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > ABANDONED));
        if old && entry.file_name().to_string_lossy().starts_with(partial::PREFIX) {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
#[path = "file_set_tests.rs"]
mod tests;
