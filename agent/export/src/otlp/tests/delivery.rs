//! A healthy collector receives everything, once, with resource and headers and within the limits.

use std::{collections::HashSet, time::Duration};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use rstest::rstest;

use super::{
    collector::{Act, Collector},
    exporter, offer,
};
use crate::{
    clock::ClockPair,
    health::ExportHealth,
    otlp::{Exporter, FINISH, Limits, LiveVerdict, Protocol, SCHEMA_URL, WallClock},
};

/// Every offered span is counted once.
#[track_caller]
pub(super) fn assert_balance(health: &ExportHealth, offered: u64) {
    assert_eq!(health.spans_sent + health.spans_spilled + health.spans_dropped, offered, "{health:?}");
}

#[rstest]
fn everything_arrives_once(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
    #[values("none", "gzip")] compression: &str,
) {
    let collector = Collector::start(protocol);
    let variables = [("OTEL_EXPORTER_OTLP_COMPRESSION", compression)];
    let exporter = exporter(&collector.endpoint(), &variables, |config| config.protocol = Some(protocol));
    let offered = offer(&exporter, 1..301, 4);
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 300), "{health:?}");
    assert_eq!((health.spans_spilled, health.spans_dropped, health.spans_rejected), (0, 0, 0));
    assert_eq!(health.last_error, None);
    let spans = collector.taken();
    let ids: HashSet<_> = spans.iter().map(|span| (&span.trace_id, &span.span_id)).collect();
    assert_eq!((spans.len() as u64, ids.len() as u64), (offered, offered));
    let zipped = collector.received().iter().all(|received| {
        received.header("content-encoding").or(received.header("grpc-encoding")) == Some("gzip")
    });
    assert_eq!(zipped, compression == "gzip");
}

#[rstest]
fn resource_and_headers_arrive(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    let endpoint = collector.endpoint().replace("://", "://user:p%40ss@");
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=7")];
    let exporter = exporter(&endpoint, &variables, |config| config.protocol = Some(protocol));
    offer(&exporter, 1..2, 1);
    let health = exporter.finish(FINISH);
    assert_eq!(health.spans_sent, 1, "{health:?}");
    assert_eq!(health.endpoint.as_deref(), Some(collector.endpoint().as_str()));
    let received = collector.received().remove(0);
    assert_eq!(received.header("authorization"), Some("Basic dXNlcjpwQHNz"));
    assert_eq!(received.header("x-tenant"), Some("7"));
    let agent = received.header("user-agent").expect("it says who it is");
    assert!(agent.starts_with(concat!("guestscope/", env!("CARGO_PKG_VERSION"))), "{agent}");
    let of = &received.request.resource_spans[0];
    assert_eq!(of.schema_url, SCHEMA_URL);
    let mut attributes: Vec<_> = of.resource.iter().flat_map(|resource| &resource.attributes).collect();
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    let text = |text: &str| Some(Value::StringValue(text.to_owned()));
    let pairs: Vec<_> = attributes
        .iter()
        .map(|pair| (pair.key.as_str(), pair.value.as_ref().and_then(|value| value.value.clone())))
        .collect();
    assert_eq!(pairs, [("guestscope.platform", text("VM")), ("service.name", text("infer"))]);
}

#[rstest]
fn spans_leave_without_being_pushed(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    let exporter = exporter(&collector.endpoint(), &[], |config| config.protocol = Some(protocol));
    for number in 1..4 {
        offer(&exporter, number..number + 1, 2);
        collector.wait(|received| received.len() as u64 == number);
    }
    assert_eq!(exporter.finish(FINISH).spans_sent, 6);
}

/// Requests wait for others: only a full batch leaves before its time.
#[test]
fn requests_linger() {
    let collector = Collector::start(Protocol::Grpc);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(Protocol::Grpc);
        config.limits = Limits { batch_spans: 10, linger: Duration::from_hours(1), ..config.limits };
    });
    for batch in 1..5 {
        offer(&exporter, batch * 10..batch * 10 + 4, 2);
        // Time for a bug to show; without one nothing happens, however long this takes.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(collector.received().len() as u64, batch - 1, "eight spans are no batch");
        offer(&exporter, batch * 10 + 4..batch * 10 + 5, 2);
        collector.wait(|received| received.len() as u64 == batch);
    }
    offer(&exporter, 50..51, 2);
    assert_eq!(exporter.finish(FINISH).spans_sent, 42);
    let sizes: Vec<usize> = collector.received().iter().map(|batch| batch.spans().count()).collect();
    assert_eq!(sizes, [10, 10, 10, 10, 2]);
}

/// A request of more spans than the queue has room for, whose attributes are long.
#[rstest]
fn a_giant_arrives_in_batches(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    let limits = Limits { queue_spans: 100, batch_spans: 400, batch_bytes: 64 << 10, ..Limits::default() };
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.limits = limits;
    });
    let offered = offer(&exporter, 1..2, 3_000);
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 1), "{health:?}");
    let received = collector.received();
    assert!(received.len() > 3_000 / 400, "{} batches", received.len());
    for batch in &received {
        assert!(batch.spans().count() <= limits.batch_spans);
        assert!(batch.request.encoded_len() <= limits.batch_bytes, "{} bytes", batch.request.encoded_len());
    }
    let last = received.last().and_then(|batch| batch.spans().last().cloned()).expect("spans");
    assert_eq!(last.name, "infer", "the outermost span comes last");
}

#[rstest]
fn rejected_spans_are_counted(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2")];
    collector.next([Act::Reject(3, "no quota for Bearer hunter2".to_owned())]);
    let exporter = exporter(&collector.endpoint(), &variables, |config| config.protocol = Some(protocol));
    offer(&exporter, 1..11, 2);
    collector.wait(|received| received.iter().map(|batch| batch.spans().count()).sum::<usize>() == 20);
    let health = exporter.finish(FINISH);
    assert_balance(&health, 20);
    assert_eq!((health.spans_sent, health.spans_rejected), (20, 3), "{health:?}");
    assert!(health.traces_sent < 10, "no trace of a batch in part rejected counts as complete");
    assert_eq!(health.last_error.as_deref(), Some("the collector rejected 3 spans: no quota for ***"));
}

#[test]
fn a_request_without_ids_is_counted_as_dropped() {
    let collector = Collector::start(Protocol::Grpc);
    let exporter = exporter(&collector.endpoint(), &[], |config| config.protocol = Some(Protocol::Grpc));
    let mut request = super::request(1, 2).as_ref().clone();
    request.phases[1].trace.span_id = [0; 8];
    exporter.offer(request.into(), LiveVerdict::default());
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_dropped, health.spans_sent), (2, 0));
    assert_eq!(health.last_error.as_deref(), Some("a request without trace and span ids"));
}

#[test]
fn the_end_may_come_twice_and_nothing_is_taken_afterwards() {
    let collector = Collector::start(Protocol::Grpc);
    let exporter = exporter(&collector.endpoint(), &[], |config| config.protocol = Some(Protocol::Grpc));
    offer(&exporter, 1..2, 3);
    assert_eq!(exporter.finish(FINISH).spans_sent, 3);
    offer(&exporter, 2..3, 4);
    let health = exporter.finish(Duration::ZERO);
    assert_eq!((health.spans_sent, health.spans_dropped), (3, 4), "{health:?}");
}

/// The pump and the thread that prints the health may share an exporter.
#[test]
fn an_exporter_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Exporter>();
}

/// Clock pairs are chosen by the request's start, not by its offer, the same as in a later export of its
/// folder.
#[test]
fn a_request_goes_by_the_clocks_that_were_in_force_when_it_began() {
    let collector = Collector::start(Protocol::Grpc);
    let clock = WallClock::new(ClockPair { monotonic_ns: 0, wall_ns: 1_000 });
    let began = super::request(1, 1).root().start_ns;
    clock.add(ClockPair { monotonic_ns: began + 1, wall_ns: began + 5_001 });
    let exporter = exporter(&collector.endpoint(), &[], |config| config.clock = clock);
    offer(&exporter, 1..3, 1);
    assert_eq!(exporter.finish(FINISH).spans_sent, 2);
    let mut starts: Vec<u64> = collector.taken().iter().map(|span| span.start_time_unix_nano).collect();
    starts.sort_unstable();
    let second = super::request(2, 1).root().start_ns;
    assert!(second > began, "the pair lies between them");
    assert_eq!(starts, [began + 1_000, second + 5_000]);
}
