//! Whatever keeps runs from being compared, in one type.

use guestscope_base::Hint;

use super::{error::Refusal, jaeger::JaegerError};
use crate::folder;

/// Why runs are not compared.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum CompareError {
    /// There is nothing to compare.
    Refused(#[from] Refusal),
    /// Nothing comes from a Jaeger.
    Jaeger(#[from] JaegerError),
    /// A folder cannot be read.
    Folder(#[from] folder::Error),
    /// The answer cannot be written.
    Answer(#[from] std::io::Error),
}

impl Hint for CompareError {
    fn hint(&self) -> Option<String> {
        match self {
            CompareError::Refused(error) => error.hint(),
            CompareError::Jaeger(error) => error.hint(),
            CompareError::Folder(error) => error.hint(),
            CompareError::Answer(_) => None,
        }
    }
}
