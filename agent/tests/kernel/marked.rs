//! The marker's probe in files: which files have it, however often they are checked and whatever had their
//! inode numbers before.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use guestscope::loader::{self, LoadError, LoadOptions, Loaded};
use tempfile::TempDir;

use crate::{
    harness::{program, skipped},
    machine::Alone,
};

/// Limit of probed files with a marker (see agent/kernel/src/loader/marks.rs).
const MOST: usize = 64;

fn loaded(test: &str) -> Option<(Loaded, Alone)> {
    let alone = Alone::lock();
    match loader::load(&LoadOptions::default()) {
        Ok(loaded) => Some((loaded, alone)),
        Err(error @ (LoadError::Permission(_) | LoadError::Btf(_) | LoadError::Formats(_))) => {
            skipped(test, &error.to_string());
            None
        }
        Err(error) => panic!("the programs load: {error}"),
    }
}

fn attach(loaded: &Loaded, path: &Path) -> Result<bool, loader::marks::MarkError> {
    loaded.marks.attach(&File::open(path).expect("it was made"))
}

/// File systems reuse the inode number of a deleted file, and a file may be overwritten.
#[test]
fn a_file_that_had_no_marker_may_have_one_later() {
    let Some((loaded, _alone)) = loaded("marked::a_file_that_had_no_marker_may_have_one_later") else {
        return;
    };
    let folder = TempDir::new().expect("a folder can be made");
    let path = folder.path().join("file");
    let marked = fs::read(program()).expect("the test program carries the marker");
    fs::write(&path, "no program").expect("the folder is ours");
    let number = path.metadata().expect("it is there").ino();
    assert!(!attach(&loaded, &path).expect("it can be read"));
    fs::write(&path, &marked).expect("the folder is ours");
    assert_eq!(path.metadata().expect("it is there").ino(), number);
    assert!(attach(&loaded, &path).expect("the kernel takes a probe"));
    assert!(!attach(&loaded, &path).expect("it has one"), "once is enough");
    // As long as the probe is there, no other file gets its inode number.
    fs::remove_file(&path).expect("it is ours");
    for other in 0..100 {
        let path = folder.path().join(other.to_string());
        fs::write(&path, "another").expect("the folder is ours");
        assert_ne!(path.metadata().expect("it is there").ino(), number);
    }
    assert_eq!(loaded.marks.count(), 1);
}

/// Removing a probe takes the kernel a tenth of a second, also when the agent was killed.
#[test]
fn no_more_files_are_probed_than_an_end_has_time_for() {
    let test = "marked::no_more_files_are_probed_than_an_end_has_time_for";
    let Some((loaded, _alone)) = loaded(test) else { return };
    let folder = TempDir::new().expect("a folder can be made");
    let probed: Vec<bool> = (0..MOST + 2)
        .map(|number| {
            let path = folder.path().join(number.to_string());
            fs::copy(program(), &path).expect("the folder is ours");
            attach(&loaded, &path).is_ok_and(|is_new| is_new)
        })
        .collect();
    assert_eq!(probed.iter().filter(|is_probed| **is_probed).count(), MOST);
    let path = folder.path().join((MOST + 1).to_string());
    let error = attach(&loaded, &path).expect_err("there are too many").to_string();
    assert!(error.starts_with("64 files with the marker are probed already"), "{error}");
    assert!(
        attach(&loaded, &folder.path().join("0")).is_ok_and(|is_new| !is_new),
        "the first ones keep theirs"
    );
}
