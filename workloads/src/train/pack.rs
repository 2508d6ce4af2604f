//! The command `shards`: packs labelled JPEG files, the user's or generated ones, into shards for `train --data`. Yields files
//! that are whole or not there at all, the same bytes for the same pictures, and a report.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::{Args, value_parser};
use serde::Serialize;

use super::{
    Model, folder,
    shards::{self, Format},
    store::Store,
};
use crate::{
    data::{
        image_files::FilesError,
        partial::{self, Partial},
        photo::Photographer,
        tar,
        tfrecord::{self, Picture},
    },
    error::Error,
    output::OutputOptions,
    progress,
    report::{left_out::printable, to_json},
    stall::machine::interrupt,
};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads shards --out shards --generate 2000
  guestscope-workloads shards --out shards --data ~/imagenet/train --format tar --per-shard 5000
  guestscope-workloads train resnet50 --data shards --drop-caches";

/// What is typed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PackOptions {
    /// Put the shards into this folder, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
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

/// What was packed.
#[derive(Debug, Serialize)]
pub struct Packed {
    /// Files that were written.
    pub shards: u32,
    /// Pictures in them.
    pub pictures: u64,
    /// Of all shards.
    pub bytes: u64,
    /// Files that could not be read, with the reason.
    pub left_out: Vec<String>,
}

/// Where pictures come from.
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

    fn picture(&self, place: usize) -> Result<(Picture, String), String> {
        match self {
            Self::Folder(pictures) => {
                let name = pictures.name(place);
                let picture =
                    pictures.read(place).map_err(|reason| format!("{}: {reason}", name.display()))?;
                Ok((picture, name.file_name().unwrap_or_default().to_string_lossy().into_owned()))
            }
            Self::Generated { photographer, .. } => {
                let jpeg = photographer.picture(place as u64).to_jpeg().map_err(|error| error.to_string())?;
                // Any class that every model for photographs has.
                let picture = Picture { jpeg: jpeg.into(), label: (place % 1000) as i64 };
                Ok((picture, format!("{place:08}.jpg")))
            }
        }
    }
}

/// Packs them.
pub fn run(options: &PackOptions, progress: bool) -> Result<Packed, Error> {
    let source = match (&options.data, options.generate) {
        // Of the model with the most classes.
        (Some(path), _) => {
            Source::Folder(folder::open(path, Model::find("alexnet-tf").unwrap_or(&super::MODELS[0]))?)
        }
        (None, count) => {
            Source::Generated { photographer: Photographer::new(options.seed), count: count.unwrap_or(1) }
        }
    };
    interrupt::listen()?;
    let write = |path: &Path, source| Error::Files(FilesError::Shard { path: path.to_owned(), source });
    fs::create_dir_all(&options.out).map_err(|error| write(&options.out, error))?;
    if !shards::listed(&options.out)?.is_empty() {
        return Err(FilesError::ShardsThere { path: options.out.clone() }.into());
    }
    let per_shard = options.per_shard as usize;
    let shards = source.count().div_ceil(per_shard);
    let bar = progress.then(|| progress::bar(source.count() as u64, "pictures packed"));
    let mut packed = Packed { shards: 0, pictures: 0, bytes: 0, left_out: Vec::new() };
    for shard in 0..shards {
        let name = format!("pictures-{shard:05}-of-{shards:05}.{}", options.format.name());
        let path = options.out.join(&name);
        let unable = |source| write(&path, source);
        // No name that what reads shards would take for one.
        let partial = options.out.join(partial::name(OsStr::new("shard")));
        let mut to = BufWriter::new(Partial::create(partial).map_err(unable)?);
        for place in shard * per_shard..source.count().min((shard + 1) * per_shard) {
            if interrupt::stopped() {
                let (path, shards) = (options.out.clone(), packed.shards);
                return Err(FilesError::Interrupted { path, shards }.into());
            }
            match source.picture(place) {
                Ok((picture, name)) => {
                    add(options.format, &mut to, place, &picture, &name).map_err(unable)?;
                    packed.pictures += 1;
                }
                Err(reason) => packed.left_out.push(reason),
            }
            if let Some(bar) = &bar {
                bar.inc(1);
            }
        }
        packed.bytes += finish(to, options.format, &path).map_err(unable)?;
        packed.shards += 1;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(packed)
}

fn add(
    format: Format,
    to: &mut impl Write,
    place: usize,
    picture: &Picture,
    name: &str,
) -> std::io::Result<()> {
    match format {
        Format::TfRecord => tfrecord::write(to, &picture.to_example(name)),
        Format::Tar => {
            tar::write(to, &format!("{place:08}.jpg"), &picture.jpeg)?;
            tar::write(to, &format!("{place:08}.cls"), picture.label.to_string().as_bytes())
        }
    }
}

/// Gives a shard its name; how many bytes it has.
fn finish(mut to: BufWriter<Partial>, format: Format, path: &Path) -> std::io::Result<u64> {
    if format == Format::Tar {
        tar::finish(&mut to)?;
    }
    let partial = to.into_inner()?;
    let bytes = partial.bytes()?;
    partial.keep(path)?;
    Ok(bytes)
}

impl Packed {
    /// For people.
    pub fn text(&self) -> String {
        let Self { shards, pictures, bytes, left_out } = self;
        let mb = *bytes as f64 / 1e6;
        let mut text = format!("{pictures} pictures in {shards} shards, {mb:.1} MB\n");
        for reason in left_out {
            // Writing to a String cannot fail; names of files may hold what a terminal obeys.
            let _ = writeln!(text, "  left out     {}", printable(reason));
        }
        text
    }

    /// For machines: one line.
    pub fn json(&self) -> String {
        to_json(self)
    }
}
