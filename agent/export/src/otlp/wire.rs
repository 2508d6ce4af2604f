//! Spans as OTLP messages and back: the run folder holds what would have been sent, and it comes back the
//! same.
//!
//! The library turns a span into a message; this module turns a message into a span. It knows every kind of
//! value, event, link, kind and status that the library can write: a message of a span, read and written
//! again, is the same message (a test builds all shapes). Only messages that no span of the library yields
//! are refused.

use std::{
    borrow::Cow,
    str::FromStr as _,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{Event, Link, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_proto::{
    tonic::{
        common::v1::{self as wire, any_value::Value as WireValue},
        trace::v1::{
            ScopeSpans, Span, SpanFlags, Status as WireStatus, TracesData,
            span::{Event as WireEvent, Link as WireLink, SpanKind as WireKind},
            status::StatusCode,
        },
    },
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use thiserror::Error;

/// A message that the library writes for no span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a span that guestscope did not write: {0}")]
pub(super) struct Foreign(&'static str);

/// A batch with the resource of its service.
pub(super) fn message(spans: Vec<SpanData>, resource: &ResourceAttributesWithSchema) -> TracesData {
    TracesData { resource_spans: group_spans_by_resource_and_scope(spans, resource) }
}

/// Number of spans in a message.
pub(super) fn count(message: &TracesData) -> u64 {
    let scopes = message.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    scopes.map(|scope| scope.spans.len() as u64).sum()
}

/// The spans of a message. Their scope implies their resource, the same as when they were written.
pub(super) fn spans(message: TracesData) -> Result<Vec<SpanData>, Foreign> {
    let mut spans = Vec::new();
    for scoped in message.resource_spans.into_iter().flat_map(|resource| resource.scope_spans) {
        let ScopeSpans { scope, spans: messages, schema_url } = scoped;
        let scope = self::scope(scope.ok_or(Foreign("no scope"))?, schema_url)?;
        spans.reserve(messages.len());
        for message in messages {
            spans.push(span(message, &scope)?);
        }
    }
    Ok(spans)
}

fn scope(message: wire::InstrumentationScope, schema_url: String) -> Result<InstrumentationScope, Foreign> {
    let wire::InstrumentationScope { name, version, attributes, .. } = message;
    let mut scope = InstrumentationScope::builder(name).with_attributes(self::attributes(attributes)?);
    if !version.is_empty() {
        scope = scope.with_version(version);
    }
    if !schema_url.is_empty() {
        scope = scope.with_schema_url(schema_url);
    }
    Ok(scope.build())
}

fn span(message: Span, scope: &InstrumentationScope) -> Result<SpanData, Foreign> {
    let span_kind = match message.kind() {
        WireKind::Server => SpanKind::Server,
        WireKind::Client => SpanKind::Client,
        WireKind::Producer => SpanKind::Producer,
        WireKind::Consumer => SpanKind::Consumer,
        // Receivers take an unspecified kind as internal (OTLP `trace.proto`).
        WireKind::Internal | WireKind::Unspecified => SpanKind::Internal,
    };
    let parent = if message.parent_span_id.is_empty() { [0; 8] } else { id(&message.parent_span_id)? };
    Ok(SpanData {
        span_kind,
        // A span is never remote to itself: the flag of that name is about its parent.
        span_context: context(
            &message.trace_id,
            &message.span_id,
            &message.trace_state,
            message.flags & !(SpanFlags::ContextIsRemoteMask as u32),
        )?,
        parent_span_id: SpanId::from_bytes(parent),
        parent_span_is_remote: is_remote(message.flags),
        name: Cow::Owned(message.name),
        start_time: time(message.start_time_unix_nano),
        end_time: time(message.end_time_unix_nano),
        attributes: attributes(message.attributes)?,
        dropped_attributes_count: message.dropped_attributes_count,
        events: events(message.events, message.dropped_events_count)?,
        links: links(message.links, message.dropped_links_count)?,
        status: message.status.map_or(Status::Unset, status),
        instrumentation_scope: scope.clone(),
    })
}

fn is_remote(flags: u32) -> bool {
    flags & SpanFlags::ContextIsRemoteMask as u32 != 0
}

fn context(trace: &[u8], span: &[u8], state: &str, flags: u32) -> Result<SpanContext, Foreign> {
    let (trace, span) = (TraceId::from_bytes(id(trace)?), SpanId::from_bytes(id(span)?));
    let state = TraceState::from_str(state).map_err(|_| Foreign("trace state"))?;
    let trace_flags = TraceFlags::new((flags & SpanFlags::TraceFlagsMask as u32) as u8);
    Ok(SpanContext::new(trace, span, trace_flags, is_remote(flags), state))
}

fn status(message: WireStatus) -> Status {
    match message.code() {
        StatusCode::Unset => Status::Unset,
        StatusCode::Ok => Status::Ok,
        StatusCode::Error => Status::error(message.message),
    }
}

fn events(messages: Vec<WireEvent>, dropped: u32) -> Result<SpanEvents, Foreign> {
    let mut events = SpanEvents::default();
    events.dropped_count = dropped;
    for message in messages {
        let WireEvent { time_unix_nano, name, attributes, dropped_attributes_count } = message;
        let attributes = self::attributes(attributes)?;
        events.events.push(Event::new(name, time(time_unix_nano), attributes, dropped_attributes_count));
    }
    Ok(events)
}

fn links(messages: Vec<WireLink>, dropped: u32) -> Result<SpanLinks, Foreign> {
    let mut links = SpanLinks::default();
    links.dropped_count = dropped;
    for message in messages {
        let WireLink { trace_id, span_id, trace_state, attributes, dropped_attributes_count, flags } =
            message;
        let context = context(&trace_id, &span_id, &trace_state, flags)?;
        links.links.push(Link::new(context, self::attributes(attributes)?, dropped_attributes_count));
    }
    Ok(links)
}

fn time(unix_ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

fn id<const BYTES: usize>(bytes: &[u8]) -> Result<[u8; BYTES], Foreign> {
    bytes.try_into().map_err(|_| Foreign("id"))
}

fn attributes(messages: Vec<wire::KeyValue>) -> Result<Vec<KeyValue>, Foreign> {
    let attribute = |message: wire::KeyValue| Ok(KeyValue::new(message.key, value(message.value)?));
    messages.into_iter().map(attribute).collect()
}

fn value(message: Option<wire::AnyValue>) -> Result<Value, Foreign> {
    match message.and_then(|message| message.value) {
        Some(WireValue::BoolValue(truth)) => Ok(Value::Bool(truth)),
        Some(WireValue::IntValue(number)) => Ok(Value::I64(number)),
        Some(WireValue::DoubleValue(number)) => Ok(Value::F64(number)),
        Some(WireValue::StringValue(text)) => Ok(Value::String(text.into())),
        Some(WireValue::ArrayValue(list)) => array(list.values).map(Value::Array),
        Some(WireValue::KvlistValue(_) | WireValue::BytesValue(_) | WireValue::StringValueStrindex(_))
        | None => Err(Foreign("attribute")),
    }
}

/// An array of one kind of value, as in the library. An empty array has no kind: its message is the same for
/// all.
fn array(messages: Vec<wire::AnyValue>) -> Result<Array, Foreign> {
    fn all<T>(messages: Vec<wire::AnyValue>, of: impl Fn(WireValue) -> Option<T>) -> Result<Vec<T>, Foreign> {
        let one = |message: wire::AnyValue| message.value.and_then(&of).ok_or(Foreign("list"));
        messages.into_iter().map(one).collect()
    }
    match messages.first().and_then(|message| message.value.as_ref()) {
        Some(WireValue::BoolValue(_)) => {
            let of = |value| if let WireValue::BoolValue(truth) = value { Some(truth) } else { None };
            all(messages, of).map(Array::Bool)
        }
        Some(WireValue::IntValue(_)) => {
            let of = |value| if let WireValue::IntValue(number) = value { Some(number) } else { None };
            all(messages, of).map(Array::I64)
        }
        Some(WireValue::DoubleValue(_)) => {
            let of = |value| if let WireValue::DoubleValue(number) = value { Some(number) } else { None };
            all(messages, of).map(Array::F64)
        }
        _ => {
            let of = |value| if let WireValue::StringValue(text) = value { Some(text.into()) } else { None };
            all(messages, of).map(Array::String)
        }
    }
}
