//! Why a session did not begin, or could not go on.

use std::io;

use guestscope_base::Hint;
use guestscope_kernel::attach::TargetError;

use crate::{
    child::ChildError,
    descriptors::TooFew,
    folder,
    loader::{LoadError, VisitError},
    patient::NoAnswer,
    sinks::otlp::ExportError,
};

/// Why a program is not observed, or no more.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Too few files may be open.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// There is no kernel side.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Tasks that are there cannot be visited.
    #[error(transparent)]
    Visit(#[from] VisitError),
    /// There is nothing to attach to.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The program was not started.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The run folder could not be made.
    #[error(transparent)]
    Folder(#[from] folder::Error),
    /// The export could not be started.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The kernel side's own messages cannot be read.
    #[error("reading the kernel side's messages: {0}")]
    Log(#[from] aya_log::Error),
    /// A process did not answer.
    #[error("looking at process {pid}: {source}")]
    Look {
        /// Its number.
        pid: u32,
        /// Why there is no answer.
        source: NoAnswer,
    },
    /// The thread that writes the run folder is gone.
    #[error("the thread that writes the run folder failed")]
    Thread,
    /// A step of the agent's own failed.
    #[error("{what}: {source}")]
    Step {
        /// What it was about to do.
        what: &'static str,
        /// Why it could not.
        source: io::Error,
    },
    /// The kernel refused something that has no name here.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Hint for SessionError {
    fn hint(&self) -> Option<String> {
        match self {
            SessionError::Descriptors(error) => error.hint(),
            SessionError::Load(error) => error.hint(),
            SessionError::Visit(error) => error.hint(),
            SessionError::Target(error) => error.hint(),
            SessionError::Child(error) => error.hint(),
            SessionError::Folder(error) => error.hint(),
            SessionError::Export(error) => error.hint(),
            SessionError::Log(_)
            | SessionError::Look { .. }
            | SessionError::Thread
            | SessionError::Step { .. }
            | SessionError::System(_) => None,
        }
    }
}

/// Names the step that failed.
pub(crate) trait During<T> {
    /// `what` the step was about to do, for people.
    fn during(self, what: &'static str) -> Result<T, SessionError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: &'static str) -> Result<T, SessionError> {
        self.map_err(|source| SessionError::Step { what, source })
    }
}
