//! OTLP-JSON lines: how spans lie in a file for people and other tools.
//!
//! A line is what the OpenTelemetry file exporter writes (`TracesData` as JSON): Jaeger's page takes the file
//! for upload, the Collector's `otlpjsonfile` receiver reads it. The agent itself reads no such file.

use opentelemetry_proto::tonic::trace::v1::TracesData;

/// A line, with its newline.
pub(super) fn line(message: &TracesData) -> Result<Vec<u8>, serde_json::Error> {
    let line = crate::json::line(message)?;
    Ok((line + "\n").into_bytes())
}
