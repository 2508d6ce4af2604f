//! `guestscope ctl`: asks a resident agent by its control socket.

mod arguments;
mod text;

pub use arguments::{CtlArguments, What};

use std::{
    io,
    path::{Path, PathBuf},
};

use guestscope_base::{Hint, json};

use crate::{
    clock::ClockPair,
    out,
    untrusted::{Shown as _, Untrusted},
    watch::control::{self, Answer, Question},
};

/// Why there is no answer. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// No agent answers.
    #[error("no resident agent answers at {}: {source}", path.shown())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It does not answer this.
    #[error("the agent refuses: {0}")]
    Refused(Untrusted),
    /// The answer cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Hint for CtlError {
    fn hint(&self) -> Option<String> {
        match self {
            CtlError::Nobody { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("only root may ask: use sudo".to_owned())
            }
            CtlError::Nobody { .. } => Some(
                "start one by `guestscope watch`, or name its socket by --socket, as `socket` in its configuration"
                    .to_owned(),
            ),
            CtlError::Refused(_) => Some("use the guestscope of the agent's version, as root".to_owned()),
            CtlError::Output(_) => None,
        }
    }
}

/// The answer of the agent at this socket, if it is one.
pub(crate) fn asked(socket: &Path, question: Question) -> Result<Answer, CtlError> {
    match control::ask(socket, question) {
        Ok(Answer::Refused(why)) => Err(CtlError::Refused(why.into())),
        Ok(answer) => Ok(answer),
        Err(source) => Err(CtlError::Nobody { path: socket.to_owned(), source }),
    }
}

/// Asks, and prints the answer. Returns the exit code.
///
/// # Errors
/// No agent answers.
pub fn run(arguments: &CtlArguments) -> Result<i32, CtlError> {
    let question = match arguments.what {
        What::Status => Question::Status,
        What::Incidents => Question::Incidents,
        What::Trigger => Question::Trigger,
        What::Keep => {
            let now = ClockPair::now().wall_ns;
            Question::Keep(arguments.from.unwrap_or(now), arguments.to.unwrap_or(now))
        }
    };
    let answer = asked(&arguments.socket, question)?;
    let text = match answer {
        Answer::Status(status) if arguments.json => json::pretty(&status).map_err(io::Error::other)?,
        Answer::Status(status) => text::status(&status),
        Answer::Incidents(mut incidents) => {
            incidents.reverse();
            if arguments.json {
                json::pretty(&incidents).map_err(io::Error::other)?
            } else {
                text::incidents(&incidents)
            }
        }
        Answer::Refused(_) | Answer::Top(..) => {
            return Err(CtlError::Refused("it answers something else".into()));
        }
        Answer::Triggered if arguments.json => "{\"triggered\": true}\n".to_owned(),
        Answer::Triggered => {
            "asked for: `guestscope ctl incidents` lists it when it is complete\n".to_owned()
        }
    };
    out::answer(&text)?;
    Ok(0)
}
