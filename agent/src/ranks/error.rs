//! Why ranks are not judged, each with the next action.

use std::path::PathBuf;

use guestscope_base::Hint;

use crate::{compare::Refusal, folder, untrusted::Shown as _};

/// An error of `ranks`. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// There is no run folder where one was named.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No process of any folder called a collective.
    #[error("no collectives in: {}{}", first.shown(), match others {
        0 => String::new(),
        others => format!(", nor in the other folders: {others}"),
    })]
    NoCollectives {
        /// The first folder.
        first: PathBuf,
        /// Number of the others.
        others: usize,
    },
    /// A single process called collectives.
    #[error("only one rank: process {pid} of {}", folder.shown())]
    OneRank {
        /// The process.
        pid: u32,
        /// Its folder.
        folder: PathBuf,
    },
    /// A folder cannot be read, and there is no other.
    #[error(transparent)]
    Folder(#[from] folder::Error),
    /// The answer cannot be written.
    #[error(transparent)]
    Answer(#[from] std::io::Error),
}

impl Hint for RanksError {
    fn hint(&self) -> Option<String> {
        match self {
            RanksError::Refused(error) => error.hint(),
            RanksError::NoCollectives { .. } => Some(
                "observe the training with `guestscope run --phase nccl` (or `attach --phase nccl`), which \
                 makes phases of NCCL's collectives"
                    .to_owned(),
            ),
            RanksError::OneRank { .. } => {
                Some("name the folders of the training's other processes as well".to_owned())
            }
            RanksError::Folder(error) => error.hint(),
            RanksError::Answer(_) => None,
        }
    }
}
