//! Input of a step: one batch of random numbers in memory, like tf_cnn_benchmarks' synthetic data, or
//! pictures from a folder. Yields tensors.

use tch::Tensor;

use super::{
    Model, Settings,
    error::TrainError,
    loader::{Batch, Loader, Plan},
    store,
};
use crate::{
    data::{file_set::Skipped, image::PREPARATION_VERSION, random::Random},
    digest::Digest,
    error::Error,
    libtorch, memory,
    report::left_out,
};

/// Increases when the same seed gives other images than before.
const SYNTHETIC_VERSION: u64 = 1;
/// Streams of random numbers for images and for labels.
const IMAGES: u64 = 0x1ab1;
const LABELS: u64 = 0x1ab2;

/// Images `[batch, channels, side, side]` and labels `[batch]`.
pub struct Tensors {
    /// Pictures, channels first.
    pub images: Tensor,
    /// Their classes.
    pub labels: Tensor,
}

/// Origin of the batches.
pub enum Batches {
    /// The same tensors in each step.
    Synthetic(Tensors),
    /// Pictures that loader threads read.
    Stored(Loader),
}

/// A source of batches, its digest and its name.
pub struct Source {
    /// Origin of the next batch.
    pub batches: Batches,
    /// Digest of the content: equal for sources of the same content.
    pub digest: Digest,
    /// Name for reports: `synthetic`, `folder`, `tfrecord` or `tar`.
    pub name: &'static str,
    /// Number of files whose pages the kernel could not be asked to forget.
    pub kept: usize,
    /// Files left out so far, with the reason.
    pub skipped: Skipped,
    model: &'static Model,
    batch: i64,
}

impl Source {
    /// Opens the data that `settings` name, and starts the threads that read it.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let Settings { model, batch, .. } = *settings;
        let size = batch as i64;
        // Once here and once as a tensor. The network's own memory is more, and libtorch's to refuse.
        memory::check((model.values() * size_of::<f32>()) as u64 * batch * 2)?;
        let Some(path) = &settings.data else {
            let mut digest = Digest::default();
            digest.text("synthetic").u64(SYNTHETIC_VERSION).u64(settings.seed);
            let images = synthetic(model, batch, settings.seed, settings.share.rank)?;
            let batches = Batches::Synthetic(tensors(&images, model, size)?);
            let skipped = Skipped::new();
            return Ok(Self { batches, digest, name: "synthetic", kept: 0, skipped, model, batch: size });
        };
        let frame = model.frame.ok_or(TrainError::NoPictures { model: model.what })?;
        let store::Opened { store, kind, mut digest, skipped } = store::open(path, model)?;
        if store.is_empty() {
            let (folder, first) = (path.clone(), left_out::first(&skipped));
            return Err(TrainError::NothingUsable { folder, count: skipped.len(), first }.into());
        }
        let kept = if settings.drop_caches { store::forget(&*store) } else { 0 };
        digest.u64(PREPARATION_VERSION);
        let (loaders, share) = (settings.loaders.max(1) as usize, settings.share);
        let loader = Loader::start(store, path, Plan { batch: batch as usize, frame, loaders, share })?;
        Ok(Self { batches: Batches::Stored(loader), digest, name: kind, kept, skipped, model, batch: size })
    }

    /// The batch of the next step.
    pub fn next_batch(&mut self) -> Result<Tensors, Error> {
        match &mut self.batches {
            Batches::Synthetic(tensors) => {
                Ok(Tensors { images: tensors.images.shallow_clone(), labels: tensors.labels.shallow_clone() })
            }
            Batches::Stored(loader) => {
                let mut batch = loader.next_batch()?;
                self.skipped.append(&mut batch.skipped);
                tensors(&batch, self.model, self.batch)
            }
        }
    }
}

/// Normal numbers with mean 0 and deviation 1, like those of normalised pictures, and random labels.
fn synthetic(model: &Model, images: u64, seed: u64, rank: u32) -> Result<Batch, TrainError> {
    // Each worker has its own streams; those of the first worker equal those of a job that runs alone.
    let own = u64::from(rank) << 32;
    let (mut values, mut labels) = (Random::new(seed, IMAGES ^ own), Random::new(seed, LABELS ^ own));
    let mut batch = Batch::new(images as usize, model.values())?;
    batch.values.fill_with(|| values.roughly_normal() as f32);
    batch.labels.fill_with(|| (labels.u64() % u64::from(model.classes)) as i64);
    Ok(batch)
}

fn tensors(batch: &Batch, model: &Model, size: i64) -> Result<Tensors, Error> {
    let side = i64::from(model.side);
    let images =
        Tensor::f_from_slice(&batch.values)?.f_view([size, i64::from(model.channels), side, side])?;
    let labels = Tensor::f_from_slice(&batch.labels)?;
    Ok(Tensors { images: libtorch::staged(images)?, labels: libtorch::staged(labels)? })
}
