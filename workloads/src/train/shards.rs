//! Pictures in shards: TFRecord files as TensorFlow keeps ImageNet in, or tar files as WebDataset does.
//! Yields a store. Opening finds where records begin and how long they are; their content is checked when it
//! is read. Damage is left out and named: after a wrong length the rest of the file, else one record.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{
    Model,
    error::TrainError,
    store::{Opened, Store},
};
use crate::{
    data::{
        file_set::{FilesError, Skipped, is_file_or_missing, own_fault},
        tar::{self, Entry},
        tfrecord::{self, FOOTER_BYTES, HEADER_BYTES, MOST_RECORD_BYTES, Picture, RecordError},
    },
    digest::Digest,
    error::Error,
};

/// Format of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// TensorFlow's format: records with checksums
    #[value(name = "tfrecord")]
    TfRecord,
    /// WebDataset's format: KEY.jpg beside KEY.cls
    Tar,
}

impl Format {
    /// As on the command line, and at the end of file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::TfRecord => "tfrecord",
            Self::Tar => "tar",
        }
    }

    /// By a file's name: `*.tar`, `*.tfrecord*`, or `train-00000-of-01024` as ImageNet's are called.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|digit| digit.is_ascii_digit());
        let parts: Vec<&str> = name.rsplitn(4, '-').collect();
        let is_numbered = matches!(parts[..], [of, "of", number, _] if is_number(of) && is_number(number));
        if Path::new(&name).extension().is_some_and(|kind| kind == "tar") {
            Some(Self::Tar)
        } else if name.contains(".tfrecord") || is_numbered {
            Some(Self::TfRecord)
        } else {
            None
        }
    }
}

/// One shard.
#[derive(Debug)]
struct Shard {
    path: PathBuf,
    file: File,
}

/// A picture in a shard.
#[derive(Clone, Copy, Debug)]
struct Place {
    shard: u32,
    /// Its number in the shard, from 0.
    number: u32,
    at: u64,
    bytes: u64,
    /// Label of a picture in a tar file, where it is known already.
    label: i64,
}

/// All pictures of all shards, in the order of their names.
#[derive(Debug)]
struct Shards {
    format: Format,
    classes: i64,
    files: Vec<Shard>,
    places: Vec<Place>,
}

/// What opening finds beside the pictures.
struct Findings {
    places: Vec<Place>,
    digest: Digest,
    skipped: Skipped,
}

/// Opens a shard, or all shards directly in a folder, sorted by name. None if there is no shard.
pub fn open(path: &Path, model: &Model) -> Result<Option<Opened>, Error> {
    let paths = if path.is_file() { vec![path.to_owned()] } else { listed(path)? };
    let Some(format) = paths.first().and_then(|path| Format::of(path)) else { return Ok(None) };
    if paths.iter().any(|path| Format::of(path) != Some(format)) {
        return Err(FilesError::TwoKinds { path: path.to_owned() }.into());
    }
    let mut found = Findings { places: Vec::new(), digest: Digest::default(), skipped: Skipped::new() };
    found.digest.text(format.name());
    let mut files: Vec<Shard> = Vec::new();
    for path in paths {
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        found.digest.text(&path.file_name().unwrap_or_default().to_string_lossy());
        let (size, file) = match own_fault(&path, file)? {
            Ok(opened) => opened,
            Err(reason) => {
                found.skipped.insert(path, reason);
                continue;
            }
        };
        found.digest.u64(size);
        let shard = files.len() as u32;
        let damage = match format {
            Format::TfRecord => records(&file, size, shard, &mut found),
            Format::Tar => entries(&file, size, shard, &path, &mut found),
        };
        if let Err(reason) = damage {
            found.skipped.insert(path.clone(), reason);
        }
        files.push(Shard { path, file });
    }
    let Findings { places, digest, skipped } = found;
    let store = Shards { format, classes: i64::from(model.classes), files, places };
    Ok(Some(Opened { store: Box::new(store), kind: format.name(), digest, skipped }))
}

/// The shards directly in a folder, sorted by name.
pub fn listed(folder: &Path) -> Result<Vec<PathBuf>, FilesError> {
    let unreadable = |source| FilesError::Folder { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if Format::of(&path).is_some() && is_file_or_missing(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn only_first(reason: &dyn std::fmt::Display, number: u32) -> String {
    format!("{reason}: only its first {number} pictures are there")
}

/// Adds the records of a TFRecord file, up to what is damaged.
fn records(file: &File, size: u64, shard: u32, found: &mut Findings) -> Result<(), String> {
    let (mut at, mut number) = (0, 0);
    loop {
        let damaged = |reason| only_first(&reason, number);
        let Some(bytes) = tfrecord::length_at(file, at, size).map_err(damaged)? else { return Ok(()) };
        found.digest.u64(bytes);
        found.places.push(Place { shard, number, at, bytes, label: 0 });
        at += HEADER_BYTES + bytes + FOOTER_BYTES;
        number += 1;
    }
}

/// Files of a tar file that follow each other and have one key.
#[derive(Default)]
struct Sample {
    key: String,
    picture: Option<Entry>,
    label: Option<i64>,
}

impl Findings {
    /// Adds the picture of a sample, or the reason why it has none; returns how many pictures that makes.
    fn add(&mut self, sample: &Sample, shard: u32, number: u32, path: &Path) -> u32 {
        let Some(Entry { name, at, bytes, .. }) = &sample.picture else { return 0 };
        let reason = match sample.label {
            // Reading the picture would allocate whatever the header says.
            _ if *bytes > MOST_RECORD_BYTES => {
                format!("its {bytes} bytes are more than the {MOST_RECORD_BYTES} that a picture may have")
            }
            None => "no .cls with a number follows or precedes it".to_owned(),
            Some(label) => {
                self.digest.u64(*bytes).u64(label.cast_unsigned());
                self.places.push(Place { shard, number, at: *at, bytes: *bytes, label });
                return 1;
            }
        };
        self.skipped.insert(inside(path, name), reason);
        0
    }
}

/// Adds the pictures of a tar file, up to what is damaged; those that have no class or are too large are left
/// out and named.
fn entries(file: &File, size: u64, shard: u32, path: &Path, found: &mut Findings) -> Result<(), String> {
    let (mut at, mut number) = (0, 0);
    let mut sample = Sample::default();
    loop {
        let entry = match tar::entry_at(file, at, size) {
            Ok(Some(entry)) => entry,
            end => {
                // The last picture may be whole.
                number += found.add(&sample, shard, number, path);
                return end.map(|_| ()).map_err(|reason| only_first(&reason, number));
            }
        };
        at = entry.next;
        // A folder or a link between a picture and its class does not part them.
        if !entry.is_file {
            continue;
        }
        let (own, kind) = of_name(&entry.name);
        if own != sample.key {
            number += found.add(&sample, shard, number, path);
            sample = Sample { key: own.to_owned(), ..Sample::default() };
        }
        match kind.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" => sample.picture = Some(entry),
            "cls" => sample.label = class_at(file, &entry),
            _ => {}
        }
    }
}

/// Name of something inside a shard, for messages.
fn inside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(", {what}"));
    name.into()
}

/// A file's key (its name up to the first dot), and the rest of its name.
fn of_name(name: &str) -> (&str, &str) {
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[start..].find('.') {
        Some(dot) => (&name[..start + dot], &name[start + dot + 1..]),
        None => (name, ""),
    }
}

fn class_at(file: &File, entry: &Entry) -> Option<i64> {
    let mut text = vec![0; usize::try_from(entry.bytes).ok().filter(|bytes| *bytes <= 32)?];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut text, entry.at).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

impl Shards {
    /// The picture with a class number of this model, or the reason why the model has no such class.
    fn classified(&self, picture: Picture) -> Result<Picture, String> {
        // TensorFlow's ImageNet counts its thousand classes from 1.
        let label = if picture.label == self.classes { 0 } else { picture.label };
        if !(0..self.classes).contains(&label) {
            return Err(format!("class {label} of a model that has {}", self.classes));
        }
        Ok(Picture { label, ..picture })
    }
}

impl Store for Shards {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn read(&self, place: usize) -> Result<Result<Picture, String>, TrainError> {
        let Place { shard, at, bytes, label, .. } = self.places[place];
        let Shard { path, file } = &self.files[shard as usize];
        let picture = match self.format {
            Format::TfRecord => tfrecord::content_at(file, at, bytes).and_then(Picture::of_example),
            // At most `MOST_RECORD_BYTES`: opening has checked it.
            Format::Tar => {
                tfrecord::bytes_at(file, at, bytes).map(|jpeg| Picture { jpeg: jpeg.into(), label })
            }
        };
        match picture {
            Ok(picture) => Ok(self.classified(picture)),
            Err(RecordError::Memory(error)) => Err(error.into()),
            Err(RecordError::Read(number)) => {
                let source = io::Error::from_raw_os_error(number);
                Err(FilesError::Read { path: path.clone(), source }.into())
            }
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn name(&self, place: usize) -> PathBuf {
        let Place { shard, number, .. } = self.places[place];
        inside(&self.files[shard as usize].path, &format!("picture {number}"))
    }

    fn files(&self) -> Vec<&Path> {
        self.files.iter().map(|shard| shard.path.as_path()).collect()
    }
}

#[cfg(test)]
#[path = "shards_tests.rs"]
mod tests;
