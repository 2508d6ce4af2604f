//! Every way in which a workload can fail, with a sentence for people and a hint at the next action. It
//! decides nothing: the exit code is set in `main`.

use std::{io, path::PathBuf};

use crate::{
    child::ChildError,
    cuda::CudaError,
    data::{file_set::FilesError, vocabulary::VocabularyError},
    h2o::error::H2oError,
    infer::weights::WeightsError,
    load::error::LoadError,
    memory::NoRoom,
    pin::PinError,
    stall::error::StallError,
    train::{distributed::error::DistributedError, error::TrainError},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Memory(#[from] NoRoom),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Stall(#[from] StallError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Distributed(#[from] DistributedError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("no such command to run beside: {command} ({reason})")]
    Beside { command: String, reason: String },
    #[error("no such device here: {asked} (libtorch sees {count} graphics processors)")]
    NoDevice { asked: String, count: i64 },
    #[error("this build's libtorch has no CUDA: {asked}")]
    NoCuda { asked: String },
    #[error("no graphics processor takes part, so there is no use of {option}")]
    NoGpu { option: &'static str },
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("no libtorch takes part, so there is no use of {option}")]
    NoUse { option: &'static str },
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error(transparent)]
    H2o(#[from] H2oError),
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    #[error("cannot make the tokenizer: {reason}")]
    Tokenizer { reason: String },
    #[error("this build has no libtorch: {workload}")]
    NoTorch { workload: &'static str },
    #[error("libtorch failed: {reason}")]
    Torch { reason: String },
    #[error("unexpected number of parameters in {model}: {found} instead of {expected}")]
    Parameters { model: &'static str, found: i64, expected: i64 },
    #[error(
        "not enough memory for a model: {model} ({} bytes needed, {} available)",
        room.needed_bytes,
        room.available_bytes
    )]
    ModelTooLarge { model: &'static str, room: NoRoom, smaller: Smaller },
    #[error("cannot make a model: {model} ({reason})")]
    Model { model: &'static str, reason: String, smaller: Smaller },
    #[error("cannot write result: {path} ({source})")]
    WriteResult { path: PathBuf, source: io::Error },
}

/// What would make a job's models need less memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smaller {
    ScaleOrWorkers,
    /// Fewer workers: the model has one size.
    Workers,
    /// Nothing: the model has one size and exists once.
    Nothing,
}

impl Smaller {
    fn hint(self) -> &'static str {
        match self {
            Self::ScaleOrWorkers => "if memory ran out, try a smaller --scale, or fewer --workers",
            Self::Workers => "this model has one size, whatever --scale: try fewer --workers, or more memory",
            Self::Nothing => "no option makes this model smaller: try another one, or more memory",
        }
    }
}

impl Error {
    /// The same for a failure while a model was made, before any batch took memory.
    #[must_use]
    pub fn of_model(self, model: &'static str, smaller: Smaller) -> Self {
        if let Self::Torch { reason } = self { Self::Model { model, reason, smaller } } else { self }
    }

    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Files(error) => error.hint(),
            Self::Memory(_) => "try a smaller --batch",
            Self::Weights(error) => error.hint(),
            Self::Vocabulary(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Stall(error) => error.hint(),
            Self::Train(error) => error.hint(),
            Self::Distributed(error) => error.hint(),
            Self::Child(error) => error.hint(),
            Self::Pin(error) => error.hint(),
            Self::Beside { .. } => {
                "what follows --beside is a command of this program, like \"train alexnet --batch 512\""
            }
            Self::NoDevice { .. } => {
                "take --device cpu or auto, or see whether `nvidia-smi` lists a GPU here, and what \
                 CUDA_VISIBLE_DEVICES says"
            }
            Self::NoCuda { .. } => {
                "take --device cpu or auto, or the program of `cargo xtask build --cuda`, which takes the \
                 PyTorch of its machine"
            }
            Self::NoGpu { .. } => "give --device cuda, or leave it out",
            Self::Cuda(error) => error.hint(),
            Self::NoUse { .. } => "leave it out",
            Self::H2o(error) => error.hint(),
            Self::Tokenizer { .. } => "this is a defect of guestscope-workloads, please report it",
            Self::NoTorch { .. } => {
                "build with libtorch 2.13.0, for example from these wheels, all unzipped into one folder:\n  \
                 pip download --no-deps torch==2.13.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85\n  \
                 LIBTORCH=FOLDER/torch cargo build --release --features torch -p guestscope-workloads"
            }
            Self::Torch { .. } => "if memory ran out, try a smaller --batch",
            Self::ModelTooLarge { smaller, .. } | Self::Model { smaller, .. } => smaller.hint(),
            Self::Parameters { .. } => "build with tch 0.26, whose models have the right shapes",
            Self::WriteResult { .. } => {
                "standard output or the file in GUESTSCOPE_WORKLOAD_FILE cannot be written to"
            }
        }
    }
}

#[cfg(feature = "torch")]
impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        let text = error.to_string();
        Self::Torch { reason: crate::libtorch::sentence(&text).to_owned() }
    }
}
