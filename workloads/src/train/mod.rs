//! Training: steps of stochastic gradient descent on the models of the studies. Yields a report in the form of
//! tf_cnn_benchmarks: images/s over the measured steps, and the elapsed time of the whole job.
//!
//! `models` builds networks, `batches` hands out what they learn from, `run` steps, `report` writes. None of them knows
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
    /// As on the command line.
    pub name: &'static str,
    /// As people call it.
    pub what: &'static str,
    /// How many numbers training changes.
    pub parameters: u64,
    /// Images per step in the studies.
    pub batch: u64,
    /// What a job of such steps was seen to take at most, of two threads.
    pub memory_mb: u32,
    /// Numbers per pixel.
    pub channels: u32,
    /// Pixels of each side.
    pub side: u32,
    /// Labels are below this.
    pub classes: u32,
    /// How pictures are prepared for it; none where it takes no photographs.
    pub frame: Option<Frame>,
}

/// Sizes of the first three as in the study of Lin, Pai and Chou, which took those of tf_cnn_benchmarks.
pub const MODELS: &[Model] = &[
    Model {
        name: "inception3",
        what: "Inception v3",
        // Torchvision's 27,161,264 without the second classifier.
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
        // It adds three to ImageNet's 224, because its first convolution pads nothing.
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

/// What a job is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is trained.
    pub model: &'static Model,
    /// Images per step.
    pub batch: u64,
    /// Measured steps.
    pub steps: u64,
    /// Steps before the measured ones.
    pub warmup: u64,
    /// Of libtorch, for the work inside one operator.
    pub threads: u32,
    /// Decides the first parameters, synthetic images and what is dropped out.
    pub seed: u64,
    /// Of stochastic gradient descent.
    pub learning_rate: f64,
    /// A folder of JPEG files, or of shards, or one of these; without it one batch of random numbers in memory is used again and again.
    pub data: Option<PathBuf>,
    /// Threads that read and prepare pictures.
    pub loaders: u32,
    /// Whether the files' pages are dropped from the cache before the first step.
    pub drop_caches: bool,
    /// Which of several workers' batches are this job's.
    pub share: Share,
    /// How it is shown how far the job is.
    pub progress: Progress,
}

/// One worker's part of the batches: of `of` workers that of `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From 0.
    pub rank: u32,
    /// How many workers there are.
    pub of: u32,
}

impl Share {
    /// Of a job that runs alone.
    pub const ALL: Self = Self { rank: 0, of: 1 };

    /// What the worker's batch of that number is in the order of all batches.
    pub fn batch(self, number: usize) -> usize {
        number.wrapping_mul(self.of as usize).wrapping_add(self.rank as usize)
    }
}

/// Runs it as `settings` say.
#[cfg(feature = "torch")]
pub fn run(settings: &Settings) -> Result<report::Report, Error> {
    run::run(settings)
}

/// Runs it as `settings` say.
#[cfg(not(feature = "torch"))]
pub fn run(_: &Settings) -> Result<report::Report, Error> {
    Err(Error::NoTorch { workload: "train" })
}
