//! Why nothing can be read from Jaeger.

use std::io;

use guestscope_base::Hint;

use crate::{sinks::otlp::ExportError, untrusted::Untrusted};

/// Why nothing can be read from Jaeger. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
pub enum JaegerError {
    /// Not a URL of one.
    #[error("not the URL of a Jaeger ({why}): {shown}")]
    Url {
        /// Without user, password and path.
        shown: String,
        /// What is wrong with the address.
        why: &'static str,
    },
    /// TLS is not available here.
    #[error("cannot speak TLS: {0}")]
    Tls(#[source] ExportError),
    /// There was no answer.
    #[error("no answer from Jaeger: {origin}: {error}")]
    Ask {
        /// Scheme, host and port.
        origin: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The answer is not one of Jaeger's query API.
    #[error("not an answer of Jaeger's query API: {origin}: {why}")]
    Answer {
        /// Scheme, host and port.
        origin: String,
        /// What the answer was.
        why: Untrusted,
    },
    /// Jaeger has no such service.
    #[error("no such service in Jaeger: {name}; there are {known}")]
    Service {
        /// The name that was given.
        name: String,
        /// Some of those that there are.
        known: String,
    },
    /// There are more traces than can be held.
    #[error("too many traces of one service: {0}")]
    TooMany(String),
    /// Traces, but none of ours.
    #[error("no traces of guestscope in the last {lookback_s} s: {name}")]
    None {
        /// The service.
        name: String,
        /// How far back the search went, s.
        lookback_s: u64,
    },
}

impl Hint for JaegerError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            JaegerError::Url { .. } => "a query endpoint looks like http://HOST:16686",
            JaegerError::Tls(_) | JaegerError::Ask { .. } | JaegerError::Answer { .. } => {
                "--jaeger takes the address of Jaeger's query API and page (port 16686), version 1.60 or later"
            }
            JaegerError::Service { .. } => "a service is the name of a run: guestscope run --name NAME",
            JaegerError::TooMany(_) => "look back less far (--lookback 1h), or compare the run folders",
            JaegerError::None { .. } => "look back further (--lookback 720h), or see that the export arrived",
        };
        Some(hint.to_owned())
    }
}
