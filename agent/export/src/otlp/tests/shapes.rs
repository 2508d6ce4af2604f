//! Spans of any content are equal after writing and reading.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, SpanId, StringValue, TraceFlags, TraceId, Value,
    trace::{Event, Link, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_proto::tonic::trace::v1::TracesData;
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanLinks},
};
use proptest::prelude::*;
use prost::Message as _;
use tempfile::tempdir;

use crate::otlp::{json, service, spill::Spill, wire};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), ".{0,40}", "[\u{0}-\u{1f}\u{7f}-\u{9f}\"\\\\äß日\u{1F600}]{1,20}"]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::ANY,
        prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE]),
    ]
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), prop::sample::select(vec![i64::MIN, -1, 0, 1, 1 << 53, i64::MAX])]
}

fn value() -> impl Strategy<Value = Value> {
    fn list<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
        prop::collection::vec(of, 0..4)
    }
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        integer().prop_map(Value::I64),
        float().prop_map(Value::F64),
        text().prop_map(|text| Value::String(text.into())),
        list(any::<bool>()).prop_map(|list| Value::Array(Array::Bool(list))),
        list(integer()).prop_map(|list| Value::Array(Array::I64(list))),
        list(float()).prop_map(|list| Value::Array(Array::F64(list))),
        list(text().prop_map(StringValue::from)).prop_map(|list| Value::Array(Array::String(list))),
    ]
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    prop::collection::vec((text(), value()).prop_map(|(key, value)| KeyValue::new(key, value)), 0..6)
}

/// Before 1970, now, beyond 2262, beyond 2554.
fn time() -> impl Strategy<Value = SystemTime> {
    let after = prop_oneof![
        any::<u64>().prop_map(Duration::from_nanos),
        (0..1_u64 << 36).prop_map(Duration::from_secs)
    ];
    let before = (0..1_u64 << 33).prop_map(Duration::from_secs);
    prop_oneof![
        after.prop_map(|after| SystemTime::UNIX_EPOCH + after),
        before.prop_map(|before| SystemTime::UNIX_EPOCH - before),
    ]
}

fn context() -> impl Strategy<Value = SpanContext> {
    let state = prop_oneof![
        Just(TraceState::default()),
        prop::collection::btree_map("[a-z][a-z0-9_-]{0,6}", "[a-zA-Z0-9:/]{1,8}", 1..4)
            .prop_map(|pairs| TraceState::from_key_value(pairs).expect("these are valid")),
    ];
    (any::<u128>(), any::<u64>(), any::<u8>(), any::<bool>(), state).prop_map(
        |(trace, span, flags, remote, state)| {
            let (trace, span) = (TraceId::from(trace), SpanId::from(span));
            SpanContext::new(trace, span, TraceFlags::new(flags), remote, state)
        },
    )
}

fn events() -> impl Strategy<Value = SpanEvents> {
    let event = (text(), time(), attributes(), any::<u32>())
        .prop_map(|(name, time, attributes, dropped)| Event::new(name, time, attributes, dropped));
    (prop::collection::vec(event, 0..4), any::<u32>()).prop_map(|(list, dropped)| {
        let mut events = SpanEvents::default();
        (events.events, events.dropped_count) = (list, dropped);
        events
    })
}

fn links() -> impl Strategy<Value = SpanLinks> {
    let link = (context(), attributes(), any::<u32>())
        .prop_map(|(context, attributes, dropped)| Link::new(context, attributes, dropped));
    (prop::collection::vec(link, 0..3), any::<u32>()).prop_map(|(list, dropped)| {
        let mut links = SpanLinks::default();
        (links.links, links.dropped_count) = (list, dropped);
        links
    })
}

fn scope() -> impl Strategy<Value = InstrumentationScope> {
    (text(), prop::option::of(text()), prop::option::of(text()), attributes()).prop_map(
        |(name, version, schema, attributes)| {
            let mut scope = InstrumentationScope::builder(name).with_attributes(attributes);
            if let Some(version) = version {
                scope = scope.with_version(version);
            }
            if let Some(schema) = schema {
                scope = scope.with_schema_url(schema);
            }
            scope.build()
        },
    )
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::Unset), Just(Status::Ok), text().prop_map(Status::error)]
}

fn span(scope: InstrumentationScope) -> impl Strategy<Value = SpanData> {
    use SpanKind::{Client, Consumer, Internal, Producer, Server};
    let kind = prop::sample::select(vec![Client, Server, Producer, Consumer, Internal]);
    let who = (context(), any::<u64>(), any::<bool>(), kind, text());
    let what = (time(), time(), attributes(), any::<u32>(), events(), links(), status());
    (who, what).prop_map(move |(who, what)| {
        let (span_context, parent, parent_span_is_remote, span_kind, name) = who;
        let (start_time, end_time, attributes, dropped_attributes_count, events, links, status) = what;
        SpanData {
            span_context,
            parent_span_id: SpanId::from(parent),
            parent_span_is_remote,
            span_kind,
            name: name.into(),
            start_time,
            end_time,
            attributes,
            dropped_attributes_count,
            events,
            links,
            status,
            instrumentation_scope: scope.clone(),
        }
    })
}

/// Spans of one scope, as the batches are.
fn batch() -> impl Strategy<Value = Vec<SpanData>> {
    scope().prop_flat_map(|scope| prop::collection::vec(span(scope), 1..5))
}

/// One for all, because the order of its attributes is undefined.
static RESOURCE: LazyLock<Resource> =
    LazyLock::new(|| service::resources("infer", vec![("host.cores".into(), 4.into())]).0.program);

fn message(spans: Vec<SpanData>) -> TracesData {
    wire::message(spans, &(&*RESOURCE).into())
}

proptest! {
    // Failing cases are large, and each shrinking step writes a file.
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Spans read back from a file are sent as the same bytes.
    #[test]
    fn every_span_comes_back_from_the_file_as_it_was_written(batches in prop::collection::vec(batch(), 1..4)) {
        let folder = tempdir().expect("a folder");
        let mut spill = Spill::new(Some(super::held(folder.path())), "spill.otlp.binpb.zst", u64::MAX);
        for batch in &batches {
            spill.push(&message(batch.clone())).expect("there is room");
        }
        for batch in batches {
            let (spans, found) = spill.front().expect("it was written");
            prop_assert_eq!(spans, batch.len() as u64);
            let back = wire::spans(found.expect("it can be read")).expect("we wrote it");
            spill.pop();
            // By the bytes, because NaN equals nothing.
            prop_assert_eq!(message(back).encode_to_vec(), message(batch).encode_to_vec());
        }
        prop_assert!(spill.front().is_none());
    }

    /// Spans as a line, which other tools read: all but numbers that JSON lacks.
    #[test]
    fn every_span_makes_a_line(batch in batch()) {
        let written = message(batch);
        let line = json::line(&written).expect("it can be written");
        prop_assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(line.len() - 1), "one line");
        serde_json::from_slice::<serde_json::Value>(&line).expect("it is JSON");
    }
}

/// Messages that we never write are refused, not altered.
#[test]
fn messages_of_others_are_refused() {
    use opentelemetry_proto::tonic::{
        common::v1::{AnyValue, InstrumentationScope as WireScope, KeyValue, any_value},
        trace::v1::{ResourceSpans, ScopeSpans, Span},
    };
    let valid = Span { trace_id: vec![1; 16], span_id: vec![1; 8], ..Span::default() };
    let of = |value| Span {
        attributes: vec![KeyValue { key: "key".to_owned(), value, ..KeyValue::default() }],
        ..valid.clone()
    };
    let bytes = AnyValue { value: Some(any_value::Value::BytesValue(vec![1])) };
    let short = Span { span_id: vec![1; 3], ..valid.clone() };
    for span in [short, of(None), of(Some(bytes))] {
        let scope = ScopeSpans { scope: Some(WireScope::default()), spans: vec![span], ..Default::default() };
        let resource = ResourceSpans { scope_spans: vec![scope], ..Default::default() };
        wire::spans(TracesData { resource_spans: vec![resource] }).expect_err("it is refused");
    }
}
