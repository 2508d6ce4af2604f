//! Hostile folders: special files, sparse files, decompression bombs, false headers.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Array as _, ArrayRef, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};

use super::parts::{Drawn, Shape, copy, padded};

/// Kinds of special files.
pub(crate) const SPECIAL: [&str; 5] = ["fifo", "zeros", "directory", "socket", "link"];

/// Files of a closed folder and of an open one.
const CLOSED: [&str; 4] = ["phases.parquet", "waits.parquet", "threads.parquet", "samples.parquet"];
const OPEN: [&str; 4] = ["phases.arrows", "waits.arrows", "threads.arrows", "samples.arrows"];

/// Texts that are no valid manifest.
const MANIFESTS: [&str; 10] = [
    "",
    "null",
    "[]",
    "{\"format\":1}",
    "{\"format\":-1}",
    "{\"format\":18446744073709551616}",
    "{\"format\":1,\"clocks\":[{\"monotonic_ns\":18446744073709551615,\"wall_ns\":0}]}",
    "{\"format\":1,\"rows\":{\"phases\":18446744073709551615}}",
    "{\"format\":1,\"workload\":{\"a\":{\"b\":{\"c\":[[[[[[]]]]]]}}}}",
    "{\"format\":1,\"histograms\":{\"entries\":[{\"kind\":\"request\",\"name\":\"x\",\"file\":\"../../x\"}]}}",
];

/// Valid folders to start from.
#[derive(Clone, Debug)]
pub(crate) struct Good {
    pub(crate) closed: PathBuf,
    pub(crate) open: PathBuf,
}

impl Good {
    /// Makes the valid folders.
    pub(crate) fn make(parent: &Path) -> Self {
        let of = |name: &str, is_closed| Shape::default().write(&parent.join(name), is_closed);
        Self { closed: of("closed", true), open: of("open", false) }
    }
}

/// Makes the folder of a seed and a number below `parent`; also returns its description.
pub(crate) fn craft(good: &Good, parent: &Path, seed: u64, index: u64) -> (PathBuf, String) {
    let mut drawn = Drawn::of(seed, index);
    let path = parent.join("crafted");
    let is_closed = drawn.below(2) == 0;
    let files = if is_closed { CLOSED } else { OPEN };
    copy(if is_closed { &good.closed } else { &good.open }, &path);
    let what = match index % 12 {
        0 => {
            let (file, kind) =
                (drawn.one(&["manifest.json", files[0], files[1], files[2]]), drawn.one(&SPECIAL));
            special(&path.join(file), kind);
            format!("{file} is a {kind}")
        }
        1 => {
            let file = drawn.one(&["manifest.json", files[0], files[1], files[3]]);
            let bytes = drawn.size(1 << 20, 8 << 40);
            hole(&path.join(file), bytes);
            format!("{file} has a hole up to {bytes} bytes")
        }
        2 => manifest(&path, &mut drawn),
        3 | 4 => return shaped(parent, &mut drawn, is_closed),
        5 => {
            let (rows, name) = (drawn.size(1_000, 200_000), drawn.size(1, 1_000) as usize);
            rewrite(&good.closed, &path, &["x".repeat(name)], rows);
            format!("{rows} rows that are alike, names of {name} bytes")
        }
        6 => {
            let (rows, name) = (drawn.size(1, 300), drawn.size(1_000, 60_000_000) as usize);
            let names: Vec<String> =
                (0..rows.min(60_000_000 / name as u64 + 1)).map(|at| padded(at, name)).collect();
            rewrite(&good.closed, &path, &names, names.len() as u64);
            format!("{} rows with names of {name} bytes", names.len())
        }
        7 => {
            let rows = drawn.size(1_000, 100_000);
            let names: Vec<String> = (0..rows).map(|at| format!("n{at}")).collect();
            rewrite(&good.closed, &path, &names, rows);
            format!("{rows} names")
        }
        kind => muddle(&path, files, kind, &mut drawn),
    };
    (path, what)
}

/// Files in each other's place, random bytes, deep directories.
fn muddle(path: &Path, files: [&str; 4], kind: u64, drawn: &mut Drawn) -> String {
    match kind {
        8 => {
            let (from, to) = (drawn.one(&files), drawn.one(&files));
            drop(fs::copy(path.join(from), path.join("swapped")));
            drop(fs::rename(path.join("swapped"), path.join(to)));
            format!("{to} is {from}")
        }
        9 => {
            let (file, bytes) = (drawn.one(&files), drawn.size(1, 1 << 20));
            let mut noise: Vec<u8> = (0..bytes).map(|_| drawn.next() as u8).collect();
            if file.ends_with("parquet") {
                noise.extend((drawn.size(1, u32::MAX.into()) as u32).to_le_bytes());
                noise.extend(b"PAR1");
            } else {
                noise.splice(
                    0..0,
                    [0xff, 0xff, 0xff, 0xff].into_iter().chain((drawn.next() as u32 >> 8).to_le_bytes()),
                );
            }
            drop(fs::write(path.join(file), noise));
            format!("{file} is {bytes} bytes of noise")
        }
        10 => {
            let bytes: Vec<u8> = (0..drawn.size(1, 4_096)).map(|_| drawn.next() as u8).collect();
            for entry in fs::read_dir(path.join("histograms")).into_iter().flatten().flatten() {
                drop(fs::write(entry.path(), &bytes));
            }
            "histograms of noise".to_owned()
        }
        _ => {
            for at in 0..drawn.size(2, 2_000) {
                let twin = path.join(format!("d{at}"));
                drop(fs::create_dir(&twin));
                drop(symlink(path, twin.join("again")));
            }
            drop(fs::remove_file(path.join("manifest.json")));
            "directories with links in circles".to_owned()
        }
    }
}

/// A folder that our own writer made, with requests of an unusual shape.
fn shaped(parent: &Path, drawn: &mut Drawn, is_closed: bool) -> (PathBuf, String) {
    let usual = Shape::default();
    let shape = match drawn.below(6) {
        0 => Shape { requests: 2, phases: 2, name_bytes: drawn.size(10, 20_000_000) as usize, ..usual },
        1 => Shape { requests: 1, phases: drawn.size(100, 60_000), ..usual },
        2 => Shape {
            requests: 1,
            phases: drawn.size(100, 60_000),
            is_nested: true,
            is_named_apart: true,
            ..usual
        },
        3 => Shape { requests: drawn.size(10, 10_000), phases: 4, is_named_apart: true, ..usual },
        4 => Shape { is_endless: true, ..usual },
        _ => Shape { requests: 20, phases: 500, is_named_apart: true, name_bytes: 200, ..usual },
    };
    (shape.write(&parent.join("shaped"), is_closed), format!("{shape:?}"))
}

/// Replaces a regular file by something else.
pub(crate) fn special(path: &Path, kind: &str) {
    drop(fs::remove_file(path));
    match kind {
        "fifo" => {
            let path = CString::new(path.as_os_str().as_bytes()).expect("a path without a zero");
            // SAFETY: the text ends with a zero and outlives the call.
            assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        }
        "zeros" => symlink("/dev/zero", path).expect("a link can be made"),
        "directory" => fs::create_dir(path).expect("a directory can be made"),
        "socket" => drop(UnixListener::bind(path)),
        _ => symlink("/etc/hostname", path).expect("a link can be made"),
    }
}

/// Makes a sparse file of this length.
pub(crate) fn hole(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("a file that is there");
    // If the file system does not support that length, a shorter one does as well.
    if file.set_len(bytes).is_err() {
        file.set_len(40 << 30).expect("a file can be made longer");
    }
}

fn manifest(path: &Path, drawn: &mut Drawn) -> String {
    let size = drawn.size(10, 5_000_000) as usize;
    let text = match drawn.below(4) {
        0 => drawn.one(&MANIFESTS).to_owned(),
        1 => format!("{{\"format\":1,\"workload\":{{\"x\":{}{}}}}}", "[".repeat(size), "]".repeat(size)),
        2 => format!("{{\"format\":1,\"workload\":{{\"x\":[{}0]}}}}", "0,".repeat(size)),
        _ => format!("{{\"format\":1,\"scenario\":\"{}\"}}", "s".repeat(size)),
    };
    drop(fs::write(path.join("manifest.json"), &text));
    format!("a manifest of {} bytes: {}", text.len(), text.chars().take(40).collect::<String>())
}

/// Rewrites `phases`: rows like the first one, with these names in turn and unique ids.
pub(crate) fn rewrite(from: &Path, to: &Path, names: &[String], rows: u64) {
    const PIECE: u64 = 10_000;
    let file = File::open(from.join("phases.parquet")).expect("a closed folder");
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).and_then(ParquetRecordBatchReaderBuilder::build);
    let batch = reader.expect("a table").next().expect("a batch").expect("a whole one");
    let one = batch.slice(0, 1);
    let schema = Arc::new(Schema::new(
        one.schema()
            .fields()
            .iter()
            .map(|field| {
                let is_name = field.name() == "name";
                if is_name { Arc::new(Field::new("name", DataType::Utf8, false)) } else { Arc::clone(field) }
            })
            .collect::<Vec<_>>(),
    ));
    let packed = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(packed).build();
    drop(fs::remove_file(to.join("phases.arrows")));
    let file = File::create(to.join("phases.parquet")).expect("a file can be made");
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).expect("a writer");
    let mut at = 0;
    while at < rows {
        let count = PIECE.min(rows - at).min(64.max(100_000_000 / names[0].len().max(1) as u64));
        let again = arrow::array::UInt32Array::from(vec![0; count as usize]);
        let columns = one.columns().iter().zip(schema.fields()).map(|(column, field)| -> ArrayRef {
            match field.name().as_str() {
                "name" => {
                    let all = (at..at + count).map(|row| names[(row % names.len() as u64) as usize].as_str());
                    Arc::new(StringArray::from_iter_values(all))
                }
                _ => arrow::compute::take(column, &again, None).expect("rows can be repeated"),
            }
        });
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("a batch");
        debug_assert_eq!(batch.column(0).len() as u64, count);
        writer.write(&batch).expect("it can be written");
        at += count;
    }
    writer.close().expect("it can be closed");
}

/// Changes some bytes of one file of a valid folder; also returns a description.
pub(crate) fn mutate(good: &Good, parent: &Path, seed: u64, index: u64) -> (PathBuf, String) {
    let mut drawn = Drawn::of(!seed, index);
    let is_closed = drawn.below(2) == 0;
    let path = parent.join("mutated");
    copy(if is_closed { &good.closed } else { &good.open }, &path);
    let files = if is_closed { CLOSED } else { OPEN };
    // Most of the read data are phases.
    let file = match drawn.below(8) {
        0 => "manifest.json",
        1 => files[drawn.below(4)],
        _ => files[0],
    };
    let mut bytes = fs::read(path.join(file)).expect("a file of a good folder");
    let length = bytes.len().max(1);
    // Headers are at the starts of pages and messages, the footer is at the end.
    let place = |drawn: &mut Drawn| match drawn.below(3) {
        0 => drawn.below(length.min(600)),
        1 => length - 1 - drawn.below(length.min(6_000)),
        _ => drawn.below(length),
    };
    let mut what = format!("{file}:");
    for _ in 0..=drawn.below(4) {
        let at = place(&mut drawn).min(bytes.len().saturating_sub(1));
        let span = drawn.size(1, 400) as usize;
        let end = (at + span).min(bytes.len());
        match drawn.below(7) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << drawn.below(8),
            2 if !bytes.is_empty() => bytes[at] = drawn.one(&[0, 1, 0x7f, 0x80, 0xfe, 0xff]),
            3 => bytes.truncate(at),
            4 => {
                let part = bytes[at..end].to_vec();
                let to = drawn.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            5 => bytes[at..end].fill(drawn.one(&[0, 0xff, 0x80])),
            6 => drop(bytes.drain(at..end)),
            _ => {}
        }
        what = format!("{what} {at}+{span}");
    }
    let written = File::create(path.join(file)).and_then(|mut file| file.write_all(&bytes));
    written.expect("a file can be written");
    (path, what)
}
