//! OTLP's messages: attributes, and requests, which are what is sent and what lies in the run folder.
//!
//! Sizes are those of the encoder. Nothing here knows phases or services.

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, ArrayValue, KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags},
};
use prost::{Message as _, length_delimiter_len};

/// Flags of a span whose parent is ours, or not.
pub(super) fn flags(parent_is_remote: bool) -> u32 {
    /// The only flag of W3C's Trace Context.
    const SAMPLED: u32 = 1;
    let remote = if parent_is_remote { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32 | remote
}

/// An attribute.
pub(super) fn attribute(key: impl Into<String>, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A text as an attribute.
pub(super) fn text(key: impl Into<String>, text: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(text.into()))
}

/// Texts as an attribute.
pub(super) fn texts(key: impl Into<String>, texts: impl IntoIterator<Item = String>) -> KeyValue {
    let values = texts.into_iter().map(|text| AnyValue { value: Some(Value::StringValue(text)) }).collect();
    attribute(key, Value::ArrayValue(ArrayValue { values }))
}

/// A number as an attribute. Numbers that OTLP has no room for become the largest one.
pub(super) fn integer(key: impl Into<String>, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// The spans of a request, in order.
pub(super) fn spans(request: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    request.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans)
}

/// Number of spans in a request.
pub(super) fn count(request: &ExportTraceServiceRequest) -> u64 {
    let scopes = request.resource_spans.iter().flat_map(|of| &of.scope_spans);
    scopes.map(|of| of.spans.len() as u64).sum()
}

/// Bytes that a span adds to its request, without what the lengths around it grow by.
pub(super) fn span_bytes(span: &Span) -> usize {
    let bytes = span.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

/// Leaves the first `at` spans in the request, and returns the others with the resources of theirs.
pub(super) fn split_off(request: &mut ExportTraceServiceRequest, mut at: usize) -> ExportTraceServiceRequest {
    let mut rest = ExportTraceServiceRequest::default();
    for of in &mut request.resource_spans {
        let mut others = Vec::new();
        for scope in &mut of.scope_spans {
            let spans = scope.spans.split_off(at.min(scope.spans.len()));
            at -= scope.spans.len();
            if !spans.is_empty() {
                others.push(ScopeSpans {
                    scope: scope.scope.clone(),
                    spans,
                    schema_url: scope.schema_url.clone(),
                });
            }
        }
        of.scope_spans.retain(|scope| !scope.spans.is_empty());
        if !others.is_empty() {
            rest.resource_spans.push(ResourceSpans {
                resource: of.resource.clone(),
                scope_spans: others,
                schema_url: of.schema_url.clone(),
            });
        }
    }
    request.resource_spans.retain(|of| !of.scope_spans.is_empty());
    rest
}

/// A request as a line of OTLP-JSON, with its newline: Jaeger's page takes a file of them for upload, the
/// Collector's `otlpjsonfile` receiver reads it. The agent itself reads no such file.
pub(super) fn line(request: &ExportTraceServiceRequest) -> Result<Vec<u8>, serde_json::Error> {
    let line = crate::json::line(request)?;
    Ok((line + "\n").into_bytes())
}
