//! Why a run folder could not be exported, and what to do then.

use std::{io, path::PathBuf};

use guestscope_base::Hint;

use crate::{folder, sinks::otlp, untrusted::Shown as _};

/// Why nothing was exported, or not all. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum ExportFileError {
    /// The file cannot be made; one that is there already is not written over.
    #[error("cannot create the file: {}: {source}", path.shown())]
    Create {
        /// Path as given.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The export could not be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// A binary form was to be written to a terminal.
    #[error("this form is not for a terminal: {0}")]
    Terminal(&'static str),
    /// An option of another form.
    #[error("not an option of this form: {0}")]
    Option(&'static str),
    /// A collector did not take everything.
    #[error("the collector did not take all spans: {taken} taken, {rejected} rejected, {left} left: {why}")]
    NotTaken {
        /// Spans that the collector has now.
        taken: u64,
        /// Spans that the collector rejected.
        rejected: u64,
        /// Spans that did not arrive.
        left: u64,
        /// Last error.
        why: String,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] folder::Error),
    /// The export to a collector cannot be started.
    #[error(transparent)]
    Start(#[from] otlp::ExportError),
}

impl Hint for ExportFileError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            ExportFileError::Create { .. } => {
                "name a file that is not there yet: --output FILE, or leave it out for standard output"
            }
            ExportFileError::Terminal(_) => "name a file that is not there yet: --output FILE",
            ExportFileError::Option("--output") => "a file is for --to otlp-json and --to perfetto",
            ExportFileError::Option(_) => "a collector is for --to otlp",
            ExportFileError::NotTaken { .. } => {
                "see that it runs and has room, then export again: traces keep their ids, so what it has already is not new to it"
            }
            ExportFileError::Folder(error) => return error.hint(),
            ExportFileError::Start(error) => return error.hint(),
            ExportFileError::Write(_) => "free space on that file system, or write elsewhere: --output FILE",
        };
        Some(hint.to_owned())
    }
}
