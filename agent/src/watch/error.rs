//! Why a resident agent did not begin, or could not go on.

use std::{io, net::SocketAddr, path::PathBuf};

use guestscope_base::Hint;

use super::config::ConfigError;
use crate::{session::SessionError, untrusted::Shown as _};

/// Why `watch` failed. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// As for `attach`.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is one already, in the same directory or at the same socket.
    #[error("another agent watches this guest: it holds {}", path.shown())]
    Another {
        /// Its lock, or its socket.
        path: PathBuf,
    },
    /// Its place cannot be made.
    #[error("making {}: {source}", path.shown())]
    Place {
        /// The directory, socket or lock.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Metrics cannot be given out there.
    #[error("listening for requests of metrics at {at}: {source}")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The answer cannot be written.
    #[error(transparent)]
    Answer(#[from] io::Error),
}

impl Hint for WatchError {
    fn hint(&self) -> Option<String> {
        match self {
            WatchError::Config(error) => error.hint(),
            WatchError::Session(error) => error.hint(),
            WatchError::Another { .. } => Some(
                "`guestscope ctl status` asks it; stop it, or give this one a `directory` and a `socket` \
                     of its own"
                    .to_owned(),
            ),
            WatchError::Place { .. } => Some(
                "run it as root, or name other places by `directory` and `socket`; without any disk, \
                     `rows = false` below [recorder] and a `directory` in memory, such as /run/guestscope, do"
                    .to_owned(),
            ),
            WatchError::Listen { .. } => Some("name another address by `metrics.listen`".to_owned()),
            WatchError::Answer(_) => None,
        }
    }
}
