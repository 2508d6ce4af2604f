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
    /// It does not do this.
    #[error("the agent refuses: {0}")]
    Refused(Untrusted),
    /// It is of another version.
    #[error("the agent and this program do not understand each other: {0}")]
    Foreign(Untrusted),
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
            CtlError::Foreign(_) => Some("use the guestscope of the agent's version".to_owned()),
            CtlError::Refused(_) | CtlError::Output(_) => None,
        }
    }
}

/// The answer of the agent at this socket, if it is one.
pub(crate) fn asked(socket: &Path, question: Question) -> Result<Answer, CtlError> {
    match control::ask(socket, question) {
        Ok(Answer::Refused(why)) if why == control::NOT_A_QUESTION => Err(CtlError::Foreign(why.into())),
        Ok(Answer::Refused(why)) => Err(CtlError::Refused(why.into())),
        Ok(answer) => Ok(answer),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(CtlError::Foreign(error.to_string().into()))
        }
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
            return Err(CtlError::Foreign("it answers something else".into()));
        }
        Answer::Triggered if arguments.json => "{\"triggered\": true}\n".to_owned(),
        Answer::Triggered => told(arguments.what).to_owned(),
    };
    out::answer(&text)?;
    Ok(0)
}

/// What becomes of what was asked for. A stretch of time is always kept.
const fn told(what: What) -> &'static str {
    match what {
        What::Keep => "asked for: `guestscope ctl incidents` lists it when it is complete\n",
        What::Trigger | What::Status | What::Incidents => {
            "asked for: `guestscope ctl incidents` lists it; within `alike_for` of another one, or beyond \
             `per_hour`, it is only counted\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::refused("{\"refused\":\"too many ask at once\"}\n", false)]
    #[case::old_agent("{\"refused\":\"not a question of this version\"}\n", true)]
    #[case::new_agent("{\"weather\":1}\n", true)]
    #[case::no_json("hello\n", true)]
    fn versions_are_named_where_they_are_the_reason(#[case] answer: &'static str, #[case] is_foreign: bool) {
        let place = tempfile::tempdir().expect("a folder can be made");
        let path = place.path().join("watch.sock");
        let listener = UnixListener::bind(&path).expect("the place is ours");
        let agent = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut question = String::new();
            BufReader::new(&stream).read_line(&mut question).expect("it asks");
            stream.write_all(answer.as_bytes()).expect("it listens");
        });
        let error = asked(&path, Question::Status).expect_err("it is no answer");
        agent.join().expect("it ends");
        let is_told = error.hint().is_some_and(|hint| hint.contains("version"));
        assert_eq!((matches!(error, CtlError::Foreign(_)), is_told), (is_foreign, is_foreign), "{error}");
    }
}
