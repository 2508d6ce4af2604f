//! Training: steps of stochastic gradient descent on the models of the studies. Yields a report in the form
//! of tf_cnn_benchmarks: images/s over the measured steps, and the elapsed time of the whole job.
//!
//! `models` builds networks, `batches` provides their input, `run` steps, `report` writes. None of them knows
//! what the numbers mean: with seeded weights and labels by name nothing useful is learned.

#[cfg(feature = "torch")]
pub mod batches;
pub mod distributed;
pub mod error;
pub mod folder;
#[cfg(feature = "torch")]
pub mod learner;
pub mod loader;
#[cfg(feature = "torch")]
pub mod models;
pub mod options;
pub mod pack;
pub mod report;
#[cfg(feature = "torch")]
mod run;
pub mod shards;
pub mod speed;
pub mod store;

use std::path::PathBuf;

use crate::{data::image::Frame, error::Error, progress::Progress};

/// One model, as a row of [`MODELS`].
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// Name for people.
    pub what: &'static str,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Images per step in the studies.
    pub batch: u64,
    /// Peak memory observed in a job of such steps with two threads, MB.
    pub memory_mb: u32,
    /// Channels of an image: numbers per pixel.
    pub channels: u32,
    /// Height and width of an image, pixels.
    pub side: u32,
    /// Number of classes: labels are below it.
    pub classes: u32,
    /// Preparation of pictures; none if the model takes no photographs.
    pub frame: Option<Frame>,
}

/// Sizes of the first three as in the study of Lin, Pai and Chou, from tf_cnn_benchmarks.
pub const MODELS: &[Model] = &[
    Model {
        name: "inception3",
        what: "Inception v3",
        // Torchvision's 27,161,264 without the auxiliary classifier.
        parameters: 23_834_568,
        batch: 32,
        memory_mb: 4_400,
        channels: 3,
        side: 299,
        classes: 1000,
        frame: Some(Frame::INCEPTION),
    },
    Model {
        name: "resnet50",
        what: crate::infer::RESNET50,
        parameters: crate::infer::RESNET50_PARAMETERS,
        batch: 32,
        memory_mb: 4_100,
        channels: 3,
        side: 224,
        classes: 1000,
        frame: Some(Frame::USUAL),
    },
    Model {
        name: "alexnet",
        what: "AlexNet, torchvision's",
        parameters: 61_100_840,
        batch: 512,
        memory_mb: 2_900,
        channels: 3,
        side: 224,
        classes: 1000,
        frame: Some(Frame::USUAL),
    },
    Model {
        name: "alexnet-tf",
        what: "AlexNet, tf_cnn_benchmarks'",
        parameters: 61_842_345,
        batch: 512,
        memory_mb: 3_000,
        channels: 3,
        // ImageNet's 224 plus three, because its first convolution pads nothing.
        side: 227,
        classes: 1001,
        frame: Some(Frame { short_side: 259, crop: 227 }),
    },
    Model {
        name: "mnist",
        what: "MNIST CNN",
        parameters: 1_199_882,
        batch: 64,
        memory_mb: 220,
        channels: 1,
        side: 28,
        classes: 10,
        frame: None,
    },
];

impl Model {
    /// The row with that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// Numbers per image.
    pub fn values(&self) -> usize {
        (self.channels * self.side * self.side) as usize
    }
}

/// Settings of a training job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model to train.
    pub model: &'static Model,
    /// Images per step.
    pub batch: u64,
    /// Measured steps.
    pub steps: u64,
    /// Steps before the measured ones.
    pub warmup: u64,
    /// Intra-op threads of libtorch.
    pub threads: u32,
    /// Seed of the first parameters, synthetic images and dropout.
    pub seed: u64,
    /// Learning rate of stochastic gradient descent.
    pub learning_rate: f64,
    /// A folder of JPEG files or shards, or one shard; none: one reused batch of random numbers.
    pub data: Option<PathBuf>,
    /// Threads that read and prepare pictures.
    pub loaders: u32,
    /// Whether the files' pages are dropped from the cache before the first step.
    pub drop_caches: bool,
    /// This job's share of several workers' batches.
    pub share: Share,
    /// How progress is shown.
    pub progress: Progress,
}

/// One worker's share of the batches: every `of`-th, from `rank` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rank of the worker, from 0.
    pub rank: u32,
    /// Number of workers.
    pub of: u32,
}

impl Share {
    /// The share of a job that runs alone: all batches.
    pub const ALL: Self = Self { rank: 0, of: 1 };

    /// Position of the worker's batch `number` in the order of all batches.
    pub fn batch(self, number: usize) -> usize {
        number.wrapping_mul(self.of as usize).wrapping_add(self.rank as usize)
    }
}

/// Runs a training job as `settings` say.
#[cfg(feature = "torch")]
pub fn run(settings: &Settings) -> Result<report::Report, Error> {
    run::run(settings)
}

/// Runs a training job as `settings` say.
#[cfg(not(feature = "torch"))]
pub fn run(_: &Settings) -> Result<report::Report, Error> {
    Err(Error::NoTorch { workload: "train" })
}
