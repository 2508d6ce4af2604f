//! Recorded guests for tests: one file per guest, unpacked into a directory.
//!
//! Yields a temporary directory that stands for `/`. `tests/data/platform/README.md` explains the notation.

use std::{fs, os::unix::fs::symlink, path::Path};

use tempfile::TempDir;

/// Writes a tree's files: path and text; `link PATH` for links, `hex PATH` for bytes.
pub fn unpack(archive: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for section in archive.split("== ").filter(|section| !section.is_empty()) {
        let (head, content) = section.split_once('\n').unwrap();
        let (kind, path) = head.split_once(' ').unwrap();
        put(directory.path(), kind, path, content);
    }
    directory
}

fn put(directory: &Path, kind: &str, path: &str, content: &str) {
    let path = directory.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "file" => fs::write(path, content).unwrap(),
        "link" => symlink(content.trim_end(), path).unwrap(),
        "hex" => {
            let digits = content.trim_end();
            let bytes =
                (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
            fs::write(path, bytes.collect::<Vec<u8>>()).unwrap();
        }
        other => panic!("unknown section: {other}"),
    }
}
