//! Inference: one file per workload of the studies, and what they share (loading of weights, models). Yields
//! a report. The loop that sends requests is in `load`.

#[cfg(feature = "torch")]
pub mod bert;
#[cfg(feature = "torch")]
pub mod dlrm;
#[cfg(feature = "torch")]
pub mod ic;
#[cfg(feature = "torch")]
pub mod log_mel;
#[cfg(feature = "torch")]
pub mod model;
#[cfg(feature = "torch")]
pub mod nlp;
pub mod options;
#[cfg(feature = "torch")]
pub mod parameters;
#[cfg(feature = "torch")]
pub mod resnet;
#[cfg(feature = "torch")]
pub mod rnnt;
#[cfg(feature = "torch")]
pub mod rs;
#[cfg(feature = "torch")]
pub mod seeded;
pub mod sizing;
pub mod spans;
#[cfg(feature = "torch")]
pub mod sr;
pub mod synthetic;
#[cfg(feature = "torch")]
pub mod tokenizer;
pub mod weights;
pub mod windows;

use std::path::PathBuf;

use self::sizing::{Precision, Scale};
#[cfg(feature = "torch")]
use crate::libtorch;
use crate::{error::Error, load::Plan, report::Report, stall::machine::work::Amount};

pub const RESNET50: &str = "ResNet-50 v1.5";
pub const RESNET50_PARAMETERS: u64 = 25_557_032;
pub const DLRM: &str = "DLRM, Criteo Kaggle";
/// 540,201,232 in the tables, 475,985 in the layers.
pub const DLRM_PARAMETERS: u64 = 540_677_217;
pub const BERT: &str = "BERT-Large, SQuAD";
/// BERT-Large without the pooler, on which no answer depends.
pub const BERT_PARAMETERS: u64 = 334_094_338;
pub const RNNT: &str = "RNN-T";
/// 42,967,040 in the encoder, 1,652,480 in the prediction network, 703,517 in the joint.
pub const RNNT_PARAMETERS: u64 = 45_323_037;

/// Settings of an inference workload.
#[derive(Clone, Debug)]
pub struct Settings {
    pub plan: Plan,
    /// Samples per request.
    pub batch: u64,
    /// Threads of libtorch inside one operator.
    pub threads: u32,
    pub seed: u64,
    /// The user's folder of inputs; none: they are generated.
    pub data: Option<PathBuf>,
    /// Number of inputs to generate.
    pub generated: u32,
    /// Trained parameters; none: they are drawn from the seed.
    pub weights: Option<PathBuf>,
    /// Tokens that trained weights know, for texts; none: the seed decides them.
    pub vocabulary: Option<PathBuf>,
    /// Scale of the model; image classification scales the pictures instead.
    pub scale: Scale,
    pub precision: Precision,
}

/// Settings of the busy loop.
#[derive(Clone, Debug)]
pub struct Loop {
    pub plan: Plan,
    /// Samples per request.
    pub batch: u64,
    pub seed: u64,
    /// Work of one sample.
    pub work: Amount,
}

/// The workloads that run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Image classification.
    Ic,
    /// Natural language: answers to questions.
    Nlp,
    /// Recommendation.
    Rs,
    /// Speech recognition.
    Sr,
}

impl Task {
    /// Default number of generated inputs.
    pub fn inputs(self) -> u32 {
        match self {
            // 7 MB of pictures; 4 MB of records.
            Self::Ic | Self::Rs => 64,
            // 0.3 MB.
            Self::Nlp => 256,
            // 15 MB.
            Self::Sr => 32,
        }
    }

    /// Runs the workload with these settings.
    #[cfg(feature = "torch")]
    pub fn run(self, settings: &Settings) -> Result<Report, Error> {
        match self {
            Self::Ic => model::run::<ic::ImageClassification>(settings),
            Self::Nlp => model::run::<nlp::Answering>(settings),
            Self::Rs => model::run::<rs::Recommendation>(settings),
            Self::Sr => model::run::<sr::Recognition>(settings),
        }
    }

    /// Fails: this build has no libtorch.
    #[cfg(not(feature = "torch"))]
    pub fn run(self, _: &Settings) -> Result<Report, Error> {
        let workload = match self {
            Self::Ic => "infer ic",
            Self::Nlp => "infer nlp",
            Self::Rs => "infer rs",
            Self::Sr => "infer sr",
        };
        Err(Error::NoTorch { workload })
    }
}
