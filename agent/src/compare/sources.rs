//! Finds the run folders that arguments name: each argument is one, or a directory that contains some.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::error::Refusal;
use crate::{
    folder::limits::{ENTRIES, FOLDERS},
    out,
};

/// A run folder, and its platform label if the caller gave one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// Its path.
    pub(super) path: PathBuf,
    /// The label before the equals sign.
    pub(super) label: Option<String>,
    /// The argument that it came from.
    pub(super) argument: PathBuf,
}

/// Directories below an argument that are looked into: a lab's folder holds `runs/WORKLOAD/PLATFORM/RUN`.
const DEEPEST: usize = 4;
/// A file that marks the folder of `cargo xtask lab`, and the subfolder with the runs of its plan. Folders
/// beside that one were set aside.
const LAB: (&str, &str) = ("journal.jsonl", "runs");

/// All folders that the arguments name, in the order of the arguments, without duplicates.
pub(super) fn find(arguments: &[PathBuf]) -> Result<Vec<Source>, Refusal> {
    let mut found: Vec<Source> = Vec::new();
    let mut known = HashSet::new();
    let mut entries = 0;
    for argument in arguments {
        let (label, path) = split(argument);
        let mut folders = Vec::new();
        look(&path, DEEPEST, &mut folders, &mut entries)?;
        if folders.is_empty() {
            return Err(Refusal::NoFolder(path));
        }
        folders.sort();
        for folder in folders {
            if known.insert(folder.clone()) {
                found.push(Source { path: folder, label: label.clone(), argument: path.clone() });
            }
        }
        if found.len() as u64 > FOLDERS.most {
            return Err(Refusal::TooManyFolders(path));
        }
    }
    Ok(found)
}

/// The same without their labels.
pub(crate) fn paths(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    Ok(find(arguments)?.into_iter().map(|source| source.path).collect())
}

/// `label=path`, unless there is something of the whole name.
fn split(argument: &Path) -> (Option<String>, PathBuf) {
    let bytes = argument.as_os_str().as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|_| !argument.exists());
    let Some((label, path)) = at.map(|at| (&bytes[..at], &bytes[at + 1..])) else {
        return (None, argument.to_owned());
    };
    match std::str::from_utf8(label) {
        Ok(label) if !label.is_empty() && !label.contains('/') => {
            (Some(label.to_owned()), PathBuf::from(OsStr::from_bytes(path)))
        }
        Ok(_) | Err(_) => (None, argument.to_owned()),
    }
}

fn look(path: &Path, deep: usize, found: &mut Vec<PathBuf>, seen: &mut u64) -> Result<(), Refusal> {
    // If it is not a regular file, opening it reports that.
    if path.join("manifest.json").symlink_metadata().is_ok() {
        found.push(path.to_owned());
        return Ok(());
    }
    let list = |source| Refusal::List { path: path.to_owned(), source };
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        // An unreadable directory below the given one is skipped: it may belong to another user.
        Err(error) if deep < DEEPEST => {
            out::say(&format!("warning: left out: {}\n", list(error)));
            return Ok(());
        }
        Err(error) => return Err(list(error)),
    };
    if deep == 0 {
        return Ok(());
    }
    let is_lab = path.join(LAB.0).is_file();
    for entry in entries {
        let entry = entry.map_err(list)?;
        *seen += 1;
        if *seen > ENTRIES.most || found.len() as u64 > FOLDERS.most {
            return Err(Refusal::TooManyFolders(path.to_owned()));
        }
        // Links could lead in circles, or out.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && (!is_lab || entry.file_name() == LAB.1) {
            look(&entry.path(), deep - 1, found, seen)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(parent: &Path, name: &str) {
        std::fs::create_dir_all(parent.join(name)).unwrap();
        std::fs::write(parent.join(name).join("manifest.json"), "{}").unwrap();
    }

    #[test]
    fn finds_folders_and_directories_of_them_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for name in ["runs/b", "runs/a", "lab/vm/c", "one"] {
            folder(at, name);
        }
        let arguments = [at.join("runs"), at.join("runs/a"), at.join("lab"), at.join("one")];
        let found = find(&arguments).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.path.strip_prefix(at).unwrap().to_owned()).collect();
        assert_eq!(names, ["runs/a", "runs/b", "lab/vm/c", "one"].map(PathBuf::from));
        assert!(found.iter().all(|one| one.label.is_none()));
    }

    #[test]
    fn of_a_lab_the_runs_of_its_plan() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for name in ["lab/runs/loop/vm/1", "lab/unlisted/2", "lab/staging/3", "lab/runs/a/b/c/too-deep"] {
            folder(at, name);
        }
        std::fs::write(at.join("lab/journal.jsonl"), "").unwrap();
        let found = find(&[at.join("lab")]).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.path.strip_prefix(at).unwrap().to_owned()).collect();
        assert_eq!(names, [PathBuf::from("lab/runs/loop/vm/1")]);
    }

    #[test]
    fn takes_a_label_before_the_path() {
        let directory = tempfile::tempdir().unwrap();
        folder(directory.path(), "run");
        folder(directory.path(), "odd=name");
        let labelled = format!("before={}", directory.path().join("run").display());
        let found = find(&[labelled.into(), directory.path().join("odd=name")]).unwrap();
        assert_eq!(found[0].label.as_deref(), Some("before"));
        assert_eq!(found[1].label, None);
    }

    #[test]
    fn names_what_is_not_there() {
        let missing = PathBuf::from("/nowhere/at/all");
        assert!(
            matches!(find(std::slice::from_ref(&missing)), Err(Refusal::NoFolder(path)) if path == missing)
        );
    }
}
