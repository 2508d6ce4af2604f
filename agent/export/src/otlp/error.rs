//! Why an export could not be started. Every message is without credentials, and each has a hint.
//!
//! Nothing that happens after the start is an error of this kind: a collector that is away is a state, in
//! [`ExportHealth`](crate::health::ExportHealth).

use crate::untrusted::Shown as _;
use std::{io, path::PathBuf};

use guestscope_base::Hint;
use thiserror::Error;

/// The export cannot be started.
#[derive(Debug, Error)]
pub enum ExportError {
    /// Neither the caller nor the environment names a collector.
    #[error("no OTLP endpoint is given")]
    NoEndpoint,
    /// The endpoint is not a collector's URL.
    #[error("not the URL of an OTLP collector ({why}): {shown}")]
    BadEndpoint {
        /// The given text, without user, password, path and query.
        shown: String,
        /// Problem with it.
        why: &'static str,
    },
    /// Unknown protocol.
    #[error("unknown OTLP protocol: {0}")]
    UnknownProtocol(String),
    /// A header that cannot be sent. Its value may be a secret and is not shown.
    #[error("not an HTTP header in OTEL_EXPORTER_OTLP_HEADERS: entry {position}")]
    BadHeader {
        /// Position in the list, from 1.
        position: usize,
    },
    /// A certificate or key that cannot be read.
    #[error("cannot read the certificate or key ({why}): {path}", path = path.shown())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Problem with it.
        why: String,
    },
    /// The client of gRPC or TLS refused the settings.
    #[error("cannot build the OTLP exporter: {0}")]
    Build(String),
    /// The thread or its event loop could not be made.
    #[error("cannot start the export thread: {0}")]
    Thread(#[source] io::Error),
}

impl Hint for ExportError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            ExportError::NoEndpoint => {
                "give --otlp http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP), or set OTEL_EXPORTER_OTLP_ENDPOINT"
            }
            ExportError::BadEndpoint { .. } => {
                "an endpoint looks like http://HOST:4317, https://HOST:4318 or HOST:4317"
            }
            ExportError::UnknownProtocol(_) => "set OTEL_EXPORTER_OTLP_PROTOCOL to grpc or http/protobuf",
            ExportError::BadHeader { .. } => {
                "write headers as name=value,name=value, special characters percent-encoded"
            }
            ExportError::Certificate { .. } => {
                "OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY name readable PEM files"
            }
            ExportError::Build(_) => "check the OTEL_EXPORTER_OTLP_* variables",
            ExportError::Thread(_) => "check the limits on threads and open files (ulimit -u, ulimit -n)",
        };
        Some(hint.to_owned())
    }
}
