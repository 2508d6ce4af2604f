//! Errors of a run folder, each with the next action.
//!
//! While a run is observed no such error reaches the caller: [`super::FolderHealth`] keeps them. These are
//! for creating, closing and reading a folder. Printing is the caller's task.

use std::{io, path::PathBuf};

use guestscope_base::Hint;

use crate::untrusted::{Shown as _, Untrusted};

/// An error of the run folder. `Display` gives `what: value`; [`Hint`] gives the next action.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder could not be made.
    #[error("cannot create the run folder: {}: {source}", path.shown())]
    Create {
        /// The folder, or the parent of it that failed.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of the folder could not be written.
    #[error("cannot write to the run folder: {file}: {source}")]
    Write {
        /// File name inside the folder.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// Rows could not be turned into a file format.
    #[error("cannot encode rows: {file}: {what}")]
    Encode {
        /// The file's name inside the folder.
        file: String,
        /// The message of the format's library.
        what: Untrusted,
    },
    /// A file of the folder could not be read.
    #[error("cannot read the run folder: {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no manifest here.
    #[error("not a run folder: {}", path.shown())]
    NotARunFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// A later guestscope wrote it.
    #[error("run folder of a newer format: {}: {found}, this guestscope knows {known}", path.shown())]
    Newer {
        /// The folder or file.
        path: PathBuf,
        /// What was found: a format number or a column.
        found: Untrusted,
        /// What this program supports.
        known: String,
    },
    /// A file is there and makes no sense.
    #[error("damaged file in the run folder: {}: {what}{}", path.shown(), kept(*rows_kept))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: Untrusted,
        /// Rows that were read, and given out, before the damage; none where the file has no rows.
        rows_kept: Option<u64>,
    },
    /// A file is there and exceeds a limit of reading, whichever program wrote it.
    #[error("beyond what is read of a run folder: {}: {what}", path.shown())]
    Beyond {
        /// The file.
        path: PathBuf,
        /// What exceeds its limit, with the number found and the limit.
        what: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Create { .. } => "name a directory that you may write to: --output DIR",
            Error::Write { .. } => {
                "free space on that file system, or put the folder elsewhere: --output DIR; what was written stays readable"
            }
            Error::Encode { .. } => "what was written before stays readable; please report this as a bug",
            Error::Read { .. } => {
                "folders are readable by the user who ran guestscope only: use the same user, or sudo"
            }
            Error::NotARunFolder { .. } => {
                "name a folder that `guestscope run` made: it holds a manifest.json"
            }
            Error::Newer { .. } => {
                "read it with the guestscope that wrote it, or a later one: see \"versions\" in manifest.json"
            }
            Error::Beyond { .. } => {
                "guestscope writes nothing beyond this limit: ask who made the folder, or run again"
            }
            Error::Damaged { .. } => {
                "the other files of the folder may still be read; copy it again if it was copied"
            }
        };
        Some(hint.to_owned())
    }
}

fn kept(rows: Option<u64>) -> String {
    rows.map_or_else(String::new, |rows| format!("; {rows} rows before that are kept"))
}

/// Result of this module's functions.
pub type Result<T> = std::result::Result<T, Error>;
