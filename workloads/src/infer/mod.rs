//! Inference: one file per workload of the studies, beside what they share (loading of weights, models).
//! Yields a report. The loop that sends requests is in `load`.

#[cfg(feature = "torch")]
pub mod ic;
#[cfg(feature = "torch")]
pub mod libtorch;
#[cfg(feature = "torch")]
pub mod resnet;
#[cfg(feature = "torch")]
pub mod seeded;
pub mod synthetic;
pub mod weights;

use std::path::PathBuf;

use crate::{error::Error, load::Plan, report::Report, stall::machine::work::Amount};

pub const RESNET50: &str = "ResNet-50 v1.5";
pub const RESNET50_PARAMETERS: u64 = 25_557_032;

/// What every inference workload is told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub plan: Plan,
    /// Samples per request.
    pub batch: u64,
    /// Of libtorch, for the work inside one operator.
    pub threads: u32,
    pub seed: u64,
    /// The user's folder of inputs; without it they are generated.
    pub data: Option<PathBuf>,
    /// How many inputs to generate, where they are.
    pub generated: u32,
    /// Trained parameters; without them they are drawn from the seed.
    pub weights: Option<PathBuf>,
}

/// What the busy loop is told.
#[derive(Clone, Debug)]
pub struct Loop {
    pub plan: Plan,
    /// Samples per request.
    pub batch: u64,
    pub seed: u64,
    /// Of one sample.
    pub work: Amount,
}

/// Image classification.
#[cfg(feature = "torch")]
pub fn ic(settings: &Settings) -> Result<Report, Error> {
    ic::run(settings)
}

/// Image classification.
#[cfg(not(feature = "torch"))]
pub fn ic(_: &Settings) -> Result<Report, Error> {
    Err(Error::NoTorch { workload: "infer ic" })
}
