//! Wire size of spans, computed without encoding them: the measure of batches.
//!
//! It follows the OTLP protobuf definition (opentelemetry-proto `trace.proto`, `common.proto`) for what our
//! spans hold, and is tested against the real encoder. It counts no links, which our spans do not have.

use opentelemetry::{Array, KeyValue, Value, trace::Event};
use opentelemetry_sdk::trace::SpanData;

/// Trace id 18, span id 10, parent 10, two fixed64 times 18, flags 6, kind 2, empty status 2.
const FIXED_BYTES: usize = 66;

/// Bytes of one span in the list of its scope.
pub(super) fn span_bytes(span: &SpanData) -> usize {
    let attributes: usize = span.attributes.iter().map(attribute_bytes).sum();
    let events: usize = span.events.iter().map(event_bytes).sum();
    let dropped = match span.events.dropped_count {
        0 => 0,
        count => 1 + varint_bytes(u64::from(count)),
    };
    field_bytes(FIXED_BYTES + field_bytes(span.name.len()) + attributes + events + dropped)
}

/// Bytes of an event: a fixed64 time, the name, attributes.
fn event_bytes(event: &Event) -> usize {
    let attributes: usize = event.attributes.iter().map(attribute_bytes).sum();
    field_bytes(9 + field_bytes(event.name.len()) + attributes)
}

/// Bytes of one attribute of a span, an event or a resource.
pub(super) fn attribute_bytes(attribute: &KeyValue) -> usize {
    field_bytes(field_bytes(attribute.key.as_str().len()) + field_bytes(value_bytes(&attribute.value)))
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Bool(_) => 2,
        Value::I64(number) => 1 + varint_bytes(number.cast_unsigned()),
        Value::F64(_) => 9,
        Value::String(text) => field_bytes(text.as_str().len()),
        Value::Array(Array::String(texts)) => {
            field_bytes(texts.iter().map(|text| field_bytes(field_bytes(text.as_str().len()))).sum())
        }
        // Not in our spans: an upper bound by the displayed text.
        other @ (Value::Array(_) | _) => field_bytes(other.to_string().len() * 4),
    }
}

/// Bytes of a length-delimited field: tag, length, contents.
fn field_bytes(contents: usize) -> usize {
    1 + varint_bytes(contents as u64) + contents
}

/// Bytes of a varint, seven bits each.
fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}
