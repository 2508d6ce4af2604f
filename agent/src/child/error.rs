//! Why the program could not be started, and what to do then.

use std::io;

use guestscope_base::Hint;

/// Why the program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program was not found.
    #[error("command not found: `{0}`")]
    NotFound(String),
    /// The file exists and cannot be executed.
    #[error("command cannot be run: `{command}`: {source}")]
    NotRunnable {
        /// The command, as it was given.
        command: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file exists, and its interpreter does not: the `#!` line's program, or the dynamic loader.
    #[error("command cannot be run: `{command}`: its interpreter or loader is missing: {source}")]
    NoInterpreter {
        /// The command, as it was given.
        command: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The user of SUDO_UID, DOAS_USER or PKEXEC_UID does not exist.
    #[error("the user who called sudo is unknown: {0}")]
    UnknownUser(String),
    /// Two of these variables name different users.
    #[error("it is unclear who called: {0}")]
    UnclearUser(String),
}

impl Hint for ChildError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            ChildError::NotFound(_) => {
                "give the program's path, or put its folder into PATH (sudo resets PATH)"
            }
            ChildError::NotRunnable { .. } => {
                "the file must be executable for the user that the program runs as"
            }
            ChildError::NoInterpreter { .. } => {
                "the first line of a script, or `readelf -l` of a program, names what must be there"
            }
            ChildError::UnknownUser(_) => "unset SUDO_UID and SUDO_GID to run the program as root",
            ChildError::UnclearUser(_) => {
                "unset those that are not true: `env -u VARIABLE guestscope run -- CMD`"
            }
        };
        Some(hint.to_owned())
    }
}
