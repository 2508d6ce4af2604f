//! OTLP-JSON lines: how spans lie in the run folder, and how they come back out of it.
//!
//! A line is what the OpenTelemetry file exporter writes (`TracesData` as JSON): Jaeger's page takes the file for
//! upload, the Collector's `otlpjsonfile` receiver reads it. Reading back knows the attributes that we write (text,
//! integers, lists of texts) and refuses the rest, rather than to send something else than was written.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, SpanId, StringValue, TraceFlags, TraceId, Value,
    trace::{Event, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_proto::{
    tonic::{
        common::v1::{self as wire, any_value::Value as WireValue},
        trace::v1::{
            Span, SpanFlags, TracesData,
            span::{Event as WireEvent, SpanKind as WireKind},
        },
    },
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use thiserror::Error;

/// A line that cannot be read back.
#[derive(Debug, Error)]
pub(super) enum LineError {
    /// No JSON, or not that of OTLP.
    #[error("no OTLP-JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A span that we did not write.
    #[error("a span that guestscope did not write: {0}")]
    Foreign(&'static str),
}

/// A line, with its newline.
pub(super) fn write(
    spans: Vec<SpanData>,
    resource: &ResourceAttributesWithSchema,
) -> Result<Vec<u8>, serde_json::Error> {
    let data = TracesData { resource_spans: group_spans_by_resource_and_scope(spans, resource) };
    let line = crate::json::line(&data)?;
    Ok((line + "\n").into_bytes())
}

/// The spans of a line. Their resource is that which their scope stands for, the same as when they were written.
pub(super) fn read(line: &[u8]) -> Result<Vec<SpanData>, LineError> {
    let data: TracesData = serde_json::from_slice(line)?;
    let mut spans = Vec::new();
    for scoped in data.resource_spans.into_iter().flat_map(|resource| resource.scope_spans) {
        let scope = scoped.scope.ok_or(LineError::Foreign("no scope"))?;
        let scope = InstrumentationScope::builder(scope.name).with_version(scope.version).build();
        for span in scoped.spans {
            spans.push(span_data(span, &scope)?);
        }
    }
    Ok(spans)
}

fn span_data(span: Span, scope: &InstrumentationScope) -> Result<SpanData, LineError> {
    let trace_id = id(&span.trace_id).map(TraceId::from_bytes)?;
    let span_id = id(&span.span_id).map(SpanId::from_bytes)?;
    let parent = if span.parent_span_id.is_empty() { Ok([0; 8]) } else { id(&span.parent_span_id) };
    let remote = span.flags & SpanFlags::ContextIsRemoteMask as u32 != 0;
    let flags = TraceFlags::new((span.flags & SpanFlags::TraceFlagsMask as u32) as u8);
    Ok(SpanData {
        span_kind: match span.kind() {
            WireKind::Server => SpanKind::Server,
            WireKind::Internal => SpanKind::Internal,
            WireKind::Unspecified | WireKind::Client | WireKind::Producer | WireKind::Consumer => {
                return Err(LineError::Foreign("kind"));
            }
        },
        span_context: SpanContext::new(trace_id, span_id, flags, false, TraceState::default()),
        parent_span_id: parent.map(SpanId::from_bytes)?,
        parent_span_is_remote: remote,
        name: Cow::Owned(span.name),
        start_time: time(span.start_time_unix_nano),
        end_time: time(span.end_time_unix_nano),
        attributes: span.attributes.into_iter().map(attribute).collect::<Result<_, _>>()?,
        dropped_attributes_count: span.dropped_attributes_count,
        events: events(span.events, span.dropped_events_count)?,
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope.clone(),
    })
}

fn events(given: Vec<WireEvent>, dropped: u32) -> Result<SpanEvents, LineError> {
    let mut events = SpanEvents::default();
    events.dropped_count = dropped;
    for event in given {
        let attributes = event.attributes.into_iter().map(attribute).collect::<Result<_, _>>()?;
        let WireEvent { time_unix_nano, name, dropped_attributes_count, .. } = event;
        events.events.push(Event::new(name, time(time_unix_nano), attributes, dropped_attributes_count));
    }
    Ok(events)
}

fn time(unix_ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

fn id<const BYTES: usize>(bytes: &[u8]) -> Result<[u8; BYTES], LineError> {
    bytes.try_into().map_err(|_| LineError::Foreign("id"))
}

fn attribute(pair: wire::KeyValue) -> Result<KeyValue, LineError> {
    let value = pair.value.and_then(|value| value.value);
    let value = match value {
        Some(WireValue::IntValue(number)) => Value::I64(number),
        Some(WireValue::StringValue(text)) => Value::String(text.into()),
        Some(WireValue::ArrayValue(list)) => Value::Array(Array::String(
            list.values.into_iter().map(|value| text(value.value)).collect::<Result<_, _>>()?,
        )),
        Some(_) | None => return Err(LineError::Foreign("attribute")),
    };
    Ok(KeyValue::new(pair.key, value))
}

fn text(value: Option<WireValue>) -> Result<StringValue, LineError> {
    match value {
        Some(WireValue::StringValue(text)) => Ok(text.into()),
        Some(_) | None => Err(LineError::Foreign("list")),
    }
}
