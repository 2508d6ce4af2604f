//! The command `shards`: packs labelled JPEG files, the user's or generated ones, into shards for `train
//! --data`. Yields files that are whole or not there at all, the same bytes for the same pictures, and a
//! report.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::{self, BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use clap::{Args, value_parser};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{
    Model,
    error::TrainError,
    folder,
    shards::{self, Format},
    store::Store,
};
use crate::{
    data::{
        image,
        image_files::FilesError,
        partial::{self, Partial},
        photo::Photographer,
        tar,
        tfrecord::{self, Picture},
    },
    error::Error,
    output::OutputOptions,
    progress,
    report::{LeftOut, left_out::printable, to_json},
    stall::machine::interrupt,
};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads shards --output shards --generate 2000
  guestscope-workloads shards --output shards --data ~/imagenet/train --format tar --per-shard 5000
  guestscope-workloads train resnet50 --data shards --drop-caches";

/// Options of `shards`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PackOptions {
    /// Put the shards into this folder, which is made if it is not there
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    shards_folder: PathBuf,
    /// Pack the JPEG files of this folder, one folder below it for each class
    #[arg(long, value_name = "DIR", required_unless_present = "generate", conflicts_with = "generate")]
    data: Option<PathBuf>,
    /// Pack so many generated pictures of 500 x 375 (about 107 kB each)
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000_000))]
    generate: Option<u32>,
    /// Decides generated pictures and their classes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// What they are written in
    #[arg(long, value_enum, default_value_t = Format::TfRecord)]
    format: Format,
    /// Pictures in each shard
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=1_000_000))]
    per_shard: u32,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// The shards that were written.
#[derive(Debug, Serialize)]
pub struct Packed {
    /// Files that were written.
    pub shards: u32,
    /// Pictures in them.
    pub pictures: u64,
    /// Size of all shards, bytes.
    pub bytes: u64,
    /// Files that could not be read or are no JPEG, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// Source of the pictures.
enum Source {
    Folder(folder::Pictures),
    Generated { photographer: Photographer, count: u32 },
}

impl Source {
    fn count(&self) -> usize {
        match self {
            Self::Folder(pictures) => pictures.files.len(),
            Self::Generated { count, .. } => *count as usize,
        }
    }

    /// The picture of that place and its name, or why it is left out.
    fn picture(&self, place: usize) -> Result<Result<(Picture, String), LeftOut>, Error> {
        match self {
            Self::Folder(pictures) => {
                let path = pictures.name(place);
                let picture = match pictures.read(place)? {
                    Ok(picture) => match image::headers(&picture.jpeg) {
                        Ok(_) => Ok(picture),
                        Err(error) => Err(error.of_picture().map_err(TrainError::from)?),
                    },
                    Err(reason) => Err(reason),
                };
                let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(picture.map(|picture| (picture, name())).map_err(|reason| LeftOut::new(&path, reason)))
            }
            Self::Generated { photographer, .. } => {
                let jpeg = photographer.picture(place as u64).to_jpeg();
                let name = format!("{place:08}.jpg");
                // Any class that every model for photographs has.
                let label = (place % 1000) as i64;
                Ok(jpeg
                    .map_err(|error| LeftOut::new(Path::new(&name), error.to_string()))
                    .map(|jpeg| (Picture { jpeg: jpeg.into(), label }, name)))
            }
        }
    }
}

/// Packs the pictures into shards.
pub fn run(options: &PackOptions, progress: bool) -> Result<Packed, Error> {
    let source = match (&options.data, options.generate) {
        // Classes of the model with the most classes.
        (Some(path), _) => {
            Source::Folder(folder::open(path, Model::find("alexnet-tf").unwrap_or(&super::MODELS[0]))?)
        }
        (None, count) => {
            Source::Generated { photographer: Photographer::new(options.seed), count: count.unwrap_or(1) }
        }
    };
    interrupt::listen()?;
    fs::create_dir_all(&options.shards_folder).map_err(|error| unwritable(&options.shards_folder, error))?;
    if !shards::listed(&options.shards_folder)?.is_empty() {
        return Err(FilesError::ShardsThere { path: options.shards_folder.clone() }.into());
    }
    let per_shard = options.per_shard as usize;
    let shards = source.count().div_ceil(per_shard);
    let bar = progress.then(|| progress::bar(source.count() as u64, "pictures packed"));
    let mut packed = Packed { shards: 0, pictures: 0, bytes: 0, left_out: Vec::new() };
    let path = |shard: usize| {
        options.shards_folder.join(format!("pictures-{shard:05}-of-{shards:05}.{}", options.format.name()))
    };
    for shard in 0..shards {
        let places = shard * per_shard..source.count().min((shard + 1) * per_shard);
        pack(options, &source, places, &path(shard), &mut packed, bar.as_ref())?;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if packed.pictures == 0 {
        // Empty shards would be found by a later training.
        for path in (0..shards).map(path) {
            fs::remove_file(&path).map_err(|error| unwritable(&path, error))?;
        }
        let path = options.data.clone().unwrap_or_default();
        let first = packed.left_out.first().map(ToString::to_string).unwrap_or_default();
        return Err(FilesError::NothingPacked { path, count: packed.left_out.len(), first }.into());
    }
    Ok(packed)
}

fn unwritable(path: &Path, source: io::Error) -> Error {
    FilesError::Shard { path: path.to_owned(), source }.into()
}

/// Writes one shard, of the pictures of these places.
fn pack(
    options: &PackOptions,
    source: &Source,
    places: Range<usize>,
    path: &Path,
    packed: &mut Packed,
    bar: Option<&ProgressBar>,
) -> Result<(), Error> {
    let unable = |source| unwritable(path, source);
    // A name that no reader of shards takes for a shard.
    let partial = options.shards_folder.join(partial::name(OsStr::new("shard")));
    let mut to = BufWriter::new(Partial::create(partial).map_err(unable)?);
    for place in places {
        if interrupt::stopped() {
            let (path, shards) = (options.shards_folder.clone(), packed.shards);
            return Err(FilesError::Interrupted { path, shards }.into());
        }
        match source.picture(place)? {
            Ok((picture, name)) => {
                add(options.format, &mut to, place, &picture, &name).map_err(unable)?;
                packed.pictures += 1;
            }
            Err(reason) => packed.left_out.push(reason),
        }
        if let Some(bar) = bar {
            bar.inc(1);
        }
    }
    packed.bytes += finish(to, options.format, path).map_err(unable)?;
    packed.shards += 1;
    Ok(())
}

fn add(format: Format, to: &mut impl Write, place: usize, picture: &Picture, name: &str) -> io::Result<()> {
    match format {
        Format::TfRecord => tfrecord::write(to, &picture.to_example(name)),
        Format::Tar => {
            tar::write(to, &format!("{place:08}.jpg"), &picture.jpeg)?;
            tar::write(to, &format!("{place:08}.cls"), picture.label.to_string().as_bytes())
        }
    }
}

/// Gives a shard its name; how many bytes it has.
fn finish(mut to: BufWriter<Partial>, format: Format, path: &Path) -> io::Result<u64> {
    if format == Format::Tar {
        tar::finish(&mut to)?;
    }
    let partial = to.into_inner()?;
    let bytes = partial.bytes()?;
    partial.keep(path)?;
    Ok(bytes)
}

impl Packed {
    /// Report for people.
    pub fn text(&self) -> String {
        let Self { shards, pictures, bytes, left_out } = self;
        let mb = *bytes as f64 / 1e6;
        let mut text = format!("{pictures} pictures in {shards} shards, {mb:.1} MB\n");
        for one in left_out {
            // Writing to a String cannot fail; names of files may hold what a terminal obeys.
            let _ = writeln!(text, "  left out     {}", printable(&one.to_string()));
        }
        text
    }

    /// Report for machines: one line of JSON.
    pub fn json(&self) -> String {
        to_json(self)
    }
}
