//! Errors of a training job beyond libtorch's.

use std::path::PathBuf;

use crate::{data::file_set::FilesError, memory::NoRoom};

/// Every way in which a training job can fail by itself.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("no picture in the folder can be used: {folder} ({count} were tried, the first: {first})")]
    NothingUsable { folder: PathBuf, count: usize, first: String },
    #[error("more classes in the folder than the model has: {folder} ({found} instead of at most {most})")]
    TooManyClasses { folder: PathBuf, found: usize, most: u32 },
    #[error("{model} takes no photographs")]
    NoPictures { model: &'static str },
    #[error("training broke down: the loss of {what} {step} is {loss}")]
    Diverged { what: String, step: u64, loss: f64 },
    #[error("a thread that loads pictures ended too early")]
    LoaderGone,
    #[error("no memory for a batch: {images} images")]
    TooLarge { images: usize },
    #[error("pictures beside folders of pictures: {folder} ({pictures} in it, {classes} folders)")]
    BothLevels { folder: PathBuf, pictures: usize, classes: usize },
    #[error(transparent)]
    Memory(#[from] NoRoom),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl TrainError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NothingUsable { .. } => {
                "name a folder of whole JPEG files or shards with --data, or leave it out"
            }
            Self::TooManyClasses { .. } => "each folder in --data that holds pictures is one class",
            Self::NoPictures { .. } => "leave --data out: what it learns is made from the seed",
            Self::Diverged { .. } => "try a smaller --learning-rate",
            Self::TooLarge { .. } | Self::Memory(_) => "try a smaller --batch, or fewer --loaders",
            Self::BothLevels { .. } => {
                "each folder in --data is one class: put the pictures into one, or elsewhere"
            }
            Self::LoaderGone => "this is a defect of guestscope-workloads, please report it",
            Self::Thread(_) => "try fewer --loaders",
            Self::Files(error) => error.hint(),
        }
    }
}
