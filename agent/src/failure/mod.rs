//! What went wrong, whichever verb it was.

use guestscope_base::Hint;

use crate::{
    compare::CompareError, ctl::CtlError, doctor::DoctorError, explain::ExplainError,
    export::ExportFileError, ranks::RanksError, report::ReportError, session::SessionError,
    shell::ShellError, watch::WatchError,
};

/// Why a verb failed. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Failure {
    /// `run` or `attach`.
    Session(#[from] SessionError),
    /// `watch`.
    Watch(#[from] WatchError),
    /// `ctl`.
    Ctl(#[from] CtlError),
    /// `explain`.
    Explain(#[from] ExplainError),
    /// `export`.
    Export(#[from] ExportFileError),
    /// `doctor`.
    Doctor(#[from] DoctorError),
    /// `compare`.
    Compare(#[from] CompareError),
    /// `ranks`.
    Ranks(#[from] RanksError),
    /// `report`.
    Report(#[from] ReportError),
    /// `completions` or `man`.
    Shell(#[from] ShellError),
}

impl Hint for Failure {
    fn hint(&self) -> Option<String> {
        match self {
            Failure::Session(error) => error.hint(),
            Failure::Watch(error) => error.hint(),
            Failure::Ctl(error) => error.hint(),
            Failure::Explain(error) => error.hint(),
            Failure::Export(error) => error.hint(),
            Failure::Doctor(error) => error.hint(),
            Failure::Compare(error) => error.hint(),
            Failure::Ranks(error) => error.hint(),
            Failure::Report(error) => error.hint(),
            Failure::Shell(error) => error.hint(),
        }
    }
}

#[cfg(test)]
mod tests;
