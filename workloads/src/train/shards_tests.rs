//! Shards that are whole, torn or damaged, made here byte by byte; training on them is in `tests/train.rs`.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rstest::rstest;

use super::{Format, open};
use crate::{
    data::{
        tar,
        tfrecord::{self, MOST_RECORD_BYTES, Picture},
    },
    train::{Model, store::Opened},
};

/// A shard of pictures whose content and class equal their number.
fn shard(format: Format, count: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in 0..count {
        let picture = Picture { jpeg: vec![label as u8; 600].into(), label };
        match format {
            Format::TfRecord => tfrecord::write(&mut bytes, &picture.to_example("x.jpg")).unwrap(),
            Format::Tar => {
                tar::write(&mut bytes, &format!("a.b/{label}.jpg"), &picture.jpeg).unwrap();
                tar::write(&mut bytes, &format!("a.b/{label}.cls"), format!("{label}\n").as_bytes()).unwrap();
            }
        }
    }
    if format == Format::Tar {
        tar::finish(&mut bytes).unwrap();
    }
    bytes
}

fn opened(path: &Path) -> Opened {
    open(path, Model::find("mnist").unwrap()).unwrap().expect("there is a shard")
}

/// Classes of readable pictures, and reasons for the others.
fn read(opened: &Opened) -> (Vec<i64>, Vec<String>) {
    let (mut labels, mut reasons) = (Vec::new(), Vec::new());
    for place in 0..opened.store.len() {
        match opened.store.read(place).expect("the machine lacks nothing") {
            Ok(picture) => {
                assert_eq!(picture.jpeg.len(), 600);
                labels.push(picture.label);
            }
            Err(reason) => reasons.push(reason),
        }
    }
    (labels, reasons)
}

#[rstest]
#[case(Format::TfRecord)]
#[case(Format::Tar)]
fn pictures_come_in_the_order_of_names(#[case] format: Format) {
    let folder = tempfile::tempdir().unwrap();
    let name = |number: u32| folder.path().join(format!("p-0000{number}-of-00002.{}", format.name()));
    fs::write(name(1), shard(format, 2)).unwrap();
    fs::write(name(0), shard(format, 3)).unwrap();
    fs::write(folder.path().join("readme.txt"), "no shard").unwrap();
    let opened = opened(folder.path());
    assert_eq!(read(&opened), (vec![0, 1, 2, 0, 1], vec![]));
    assert_eq!((opened.kind, opened.skipped.len()), (format.name(), 0));
    assert_eq!(opened.store.files(), [name(0).as_path(), name(1).as_path()]);
    assert_eq!(opened.store.name(4), PathBuf::from(format!("{}, picture 1", name(1).display())));
    let other = open(&name(1), Model::find("mnist").unwrap()).unwrap().unwrap();
    assert_eq!(other.store.len(), 2, "one shard alone");
    assert_ne!(other.digest, opened.digest);
}

#[rstest]
#[case(Format::TfRecord, "ends inside a record: only its first 2 pictures are there")]
#[case(Format::Tar, "ends inside a file: only its first 2 pictures are there")]
fn a_cut_shard_has_what_is_before_the_cut(#[case] format: Format, #[case] reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("cut.{}", format.name()));
    let whole = shard(format, 3);
    let end = match format {
        Format::TfRecord => whole.len() - 5,
        // Inside the third picture.
        Format::Tar => 2 * (1536 + 1024) + 700,
    };
    fs::write(&path, &whole[..end]).unwrap();
    let opened = opened(&path);
    assert_eq!(read(&opened), (vec![0, 1], vec![]));
    assert_eq!(opened.skipped, [(path, reason.to_owned())].into());
}

/// As if one disk of several were not mounted: the report names the missing shards.
#[test]
fn a_shard_that_is_not_there_is_left_out_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = |number: u32| folder.path().join(format!("p-0000{number}-of-00002.tfrecord"));
    std::os::unix::fs::symlink("no/such", name(0)).unwrap();
    fs::write(name(1), shard(Format::TfRecord, 2)).unwrap();
    let opened = opened(folder.path());
    assert_eq!(read(&opened), (vec![0, 1], vec![]));
    let reason = "No such file or directory (os error 2)".to_owned();
    assert_eq!(opened.skipped, [(name(0), reason)].into());
    assert_eq!(opened.store.name(1), PathBuf::from(format!("{}, picture 1", name(1).display())));
    fs::remove_file(name(1)).unwrap();
    assert!(self::opened(folder.path()).store.is_empty());
}

/// Headers that Python's tarfile and WebDataset's `TarWriter` write before each file, with its time.
#[rstest]
#[case::time(b'x', "13 mtime=1.5\n")]
#[case::for_all(b'g', "13 mtime=1.5\n")]
#[case::link(b'2', "")]
#[case::folder(b'5', "")]
fn what_is_no_file_parts_no_picture_from_its_class(#[case] kind: u8, #[case] content: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    let mut bytes = Vec::new();
    // Each file of a plain shard follows the last one: a picture takes 1536 bytes, a class 1024.
    let plain = shard(Format::Tar, 2);
    for file in [&plain[..1536], &plain[1536..2560], &plain[2560..4096], &plain[4096..5120]] {
        bytes.extend(tar::header(kind, "././@PaxHeader", content.len() as u64));
        bytes.extend(content.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes.extend(file);
    }
    tar::finish(&mut bytes).unwrap();
    fs::write(&path, &bytes).unwrap();
    let opened = opened(&path);
    assert_eq!(read(&opened), (vec![0, 1], vec![]));
    assert_eq!(opened.skipped.len(), 0);
}

#[test]
fn pictures_without_a_class_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    let mut bytes = Vec::new();
    for (name, content) in [
        ("a.jpg", [0; 600].as_slice()),
        ("b.jpg", &[0; 600]),
        ("b.cls", b"owl"),
        ("c.jpg", &[0; 600]),
        ("c.cls", b"3"),
        // A class without a picture.
        ("d.cls", b"4"),
        ("e.jpg", &[0; 600]),
    ] {
        tar::write(&mut bytes, name, content).unwrap();
    }
    tar::finish(&mut bytes).unwrap();
    fs::write(&path, &bytes).unwrap();
    let opened = opened(&path);
    assert_eq!(read(&opened), (vec![3], vec![]));
    let name = |member: &str| PathBuf::from(format!("{}, {member}", path.display()));
    let names: Vec<PathBuf> = opened.skipped.keys().cloned().collect();
    assert_eq!(names, [name("a.jpg"), name("b.jpg"), name("e.jpg")]);
    assert!(opened.skipped.values().all(|reason| reason == "no .cls with a number follows or precedes it"));
}

/// Such a file costs its maker nothing if it is a hole; allocating memory for it would kill the process.
#[rstest]
#[case(MOST_RECORD_BYTES + 1)]
#[case(7 << 30)]
fn pictures_that_are_too_large_are_named(#[case] size: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    let file = File::create(&path).unwrap();
    file.write_all_at(&tar::header(b'0', "huge.jpg", size), 0).unwrap();
    let mut rest = Vec::new();
    tar::write(&mut rest, "huge.cls", b"1").unwrap();
    rest.extend(shard(Format::Tar, 2));
    file.write_all_at(&rest, 512 + size.next_multiple_of(512)).unwrap();
    let opened = opened(&path);
    assert_eq!(read(&opened), (vec![0, 1], vec![]));
    let reason = format!("its {size} bytes are more than the 268435456 that a picture may have");
    assert_eq!(opened.skipped, [(format!("{}, huge.jpg", path.display()).into(), reason)].into());
}

#[test]
fn one_damaged_record_is_one_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tfrecord");
    let mut bytes = shard(Format::TfRecord, 3);
    let third = bytes.len() / 3;
    bytes[third + third / 2] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (labels, reasons) = read(&opened(&path));
    assert_eq!((labels, reasons), (vec![0, 2], vec!["the checksum of its content is wrong".to_owned()]));
}

#[test]
fn classes_that_the_model_does_not_have_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tfrecord");
    // mnist has ten classes; in a set that counts from 1, label 10 is the first one's.
    fs::write(&path, shard(Format::TfRecord, 12)).unwrap();
    let (labels, reasons) = read(&opened(&path));
    assert_eq!(labels, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    assert_eq!(reasons, ["class 11 of a model that has 10"]);
}

#[rstest]
#[case("x/train-00000-of-01024", Some(Format::TfRecord))]
#[case("data.tfrecord-00000-of-00010", Some(Format::TfRecord))]
#[case("a.tfrecords", Some(Format::TfRecord))]
#[case("imagenet-000001.TAR", Some(Format::Tar))]
#[case("a-0-of-1", None)]
#[case("picture.jpg", None)]
#[case("tar", None)]
fn a_shard_is_known_by_its_name(#[case] name: &str, #[case] expected: Option<Format>) {
    assert_eq!(Format::of(Path::new(name)), expected);
}

#[test]
fn a_folder_without_shards_is_another_matter() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.jpg"), "x").unwrap();
    assert!(open(folder.path(), Model::find("mnist").unwrap()).unwrap().is_none());
}

/// The program cannot know which kind is meant.
#[test]
fn shards_of_two_kinds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, format) in [("a.tar", Format::Tar), ("b.tfrecord", Format::TfRecord)] {
        fs::write(folder.path().join(name), shard(format, 1)).unwrap();
    }
    let error = open(folder.path(), Model::find("mnist").unwrap()).err().unwrap().to_string();
    assert!(error.starts_with("shards of two kinds, tfrecord and tar: "), "{error}");
    assert_eq!(opened(&folder.path().join("a.tar")).store.len(), 1);
}
