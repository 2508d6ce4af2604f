//! Folders of the user and of the cache: what is taken from them, and what is left out by name.

use std::fs;

use super::{FileSet, FilesError, Kind};

const KIND: Kind = Kind { name: "numbers", what: "numbers", endings: &["txt"], named: ".txt" };

fn read(files: &FileSet, place: u64) -> Result<u32, FilesError> {
    files.read_at(place, |content| {
        let text = String::from_utf8_lossy(content);
        Ok(text.parse().map_err(|_| format!("no number: {text}")))
    })
}

#[test]
fn the_next_file_stands_in_for_one_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for (name, text) in [("a.txt", "1"), ("b.txt", "x"), ("c.txt", "3"), ("d.txt", "y")] {
        write(name, text);
    }
    let files = KIND.open_folder(folder.path()).unwrap();
    let clone = files.clone();
    let read = |place| read(&files, place);
    let numbers: Vec<u32> =
        [0, 1, 2, 3, 4, 7, u64::MAX].into_iter().map(|place| read(place).unwrap()).collect();
    assert_eq!(numbers, [1, 3, 3, 1, 1, 1, 1]);
    let skipped: Vec<(String, String)> = clone
        .skipped()
        .into_iter()
        .map(|(path, reason)| (path.file_name().unwrap().to_string_lossy().into_owned(), reason))
        .collect();
    let expected = [("b.txt", "no number: x"), ("d.txt", "no number: y")];
    assert_eq!(skipped, expected.map(|(name, reason)| (name.to_owned(), reason.to_owned())));

    // A file that is gone is one that cannot be used.
    fs::remove_file(folder.path().join("a.txt")).unwrap();
    assert_eq!(read(0).unwrap(), 3);

    // What was left out stays so, or two requests for one place would read two files.
    write("b.txt", "2");
    assert_eq!(read(1).unwrap(), 3);
    for name in ["a.txt", "c.txt"] {
        write(name, "");
    }
    let error = read(0).unwrap_err();
    assert!(matches!(error, FilesError::NothingUsable { count: 4, .. }), "{error}");
}

/// The link is missing rather than of another kind: named like any other file that cannot be used.
#[test]
fn a_link_to_nothing_is_left_out_by_name() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/nowhere/1", folder.path().join("a.txt")).unwrap();
    fs::write(folder.path().join("b.txt"), "2").unwrap();
    fs::create_dir(folder.path().join("c.txt")).unwrap();
    let files = KIND.open_folder(folder.path()).unwrap();
    assert_eq!((files.paths.len(), read(&files, 0).unwrap()), (2, 2));
    let skipped: Vec<String> = files.skipped().into_values().collect();
    assert_eq!(skipped, ["No such file or directory (os error 2)"]);
}

/// As in two containers with one cache: the second makes all of its files while the first is at its first
/// file.
#[test]
fn two_that_have_one_number_make_files_side_by_side() {
    let cache = tempfile::tempdir().unwrap();
    let digest = crate::digest::Digest::default();
    let open = |first: &mut dyn FnMut()| {
        KIND.open_generated(cache.path(), digest, 3, |place| {
            if place == 0 {
                first();
            }
            Ok(place.to_string().into_bytes())
        })
    };
    let mut inner = None;
    let outer = open(&mut || inner = Some(open(&mut || ()))).unwrap();
    for files in [outer, inner.unwrap().unwrap()] {
        assert_eq!([0, 1, 2].map(|place| read(&files, place).unwrap()), [0, 1, 2]);
    }
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "nothing partial is left");
}

#[test]
fn a_made_file_that_cannot_be_used_ends_the_run() {
    let cache = tempfile::tempdir().unwrap();
    let files = KIND.open_generated(cache.path(), crate::digest::Digest::default(), 2, |_| Ok(b"x".to_vec()));
    let error = read(&files.unwrap(), 1).unwrap_err();
    assert!(matches!(&error, FilesError::Unusable { reason, .. } if reason == "no number: x"), "{error}");
}
