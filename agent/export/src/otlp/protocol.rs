//! What collectors are spoken to in, and what they are told of it.

use super::error::ExportError;

/// Version of the semantic conventions that our resource attributes follow.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.42.0";

/// How the export names itself to a collector, as the specification of the exporter asks for.
pub(super) const USER_AGENT: &str = concat!("guestscope/", env!("CARGO_PKG_VERSION"), " (OTLP; Rust)");

/// OTLP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC, port 4317.
    Grpc,
    /// OTLP over HTTP, protobuf, port 4318.
    HttpProtobuf,
}

impl Protocol {
    /// A protocol as OTEL_EXPORTER_OTLP_PROTOCOL spells it. Receivers of `http/json` take `http/protobuf` at
    /// the same URL.
    pub fn from_name(name: &str) -> Result<Self, ExportError> {
        match name.to_ascii_lowercase().as_str() {
            "grpc" => Ok(Protocol::Grpc),
            "http/protobuf" | "http/json" => Ok(Protocol::HttpProtobuf),
            _ => Err(ExportError::UnknownProtocol(name.to_owned())),
        }
    }

    pub(super) const fn port(self) -> u16 {
        match self {
            Protocol::Grpc => 4317,
            Protocol::HttpProtobuf => 4318,
        }
    }
}
