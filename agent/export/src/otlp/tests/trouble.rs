//! Fate of spans when the collector is away, stalls, dies, is overloaded or refuses: every loss is reported.

use std::{
    collections::HashSet,
    fs,
    net::TcpListener,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use rstest::rstest;
use tempfile::tempdir;

use super::{
    collector::{Act, Collector, Failure},
    delivery::assert_balance,
    exporter, held, offer,
    proxy::Proxy,
    wait_until,
};
use crate::otlp::{
    Config, FINISH, Limits, Protocol, REFUSED_FILE, SPILL_FILE, keep::SPILL_FRAMES, message::count,
};

/// Number of spans in a file of lines in the run folder.
pub(super) fn lying(folder: &Path, file: &str) -> u64 {
    let lines = fs::read(folder.join(file)).unwrap_or_default();
    let lines = lines.split_inclusive(|&byte| byte == b'\n');
    lines.map(|line| count(&serde_json::from_slice(line).expect("a line of spans"))).sum()
}

pub(super) fn into(folder: &Path, protocol: Protocol) -> impl FnOnce(&mut Config) {
    move |config| {
        config.protocol = Some(protocol);
        config.folder = Some(held(folder));
    }
}

pub(super) fn unique(spans: &[Span]) -> u64 {
    spans.iter().map(|span| (&span.trace_id, &span.span_id)).collect::<HashSet<_>>().len() as u64
}

pub(super) fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

#[rstest]
fn nobody_there(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let folder = tempdir().expect("a folder");
    let endpoint = format!("http://user:hunter2@127.0.0.1:{}", closed_port());
    let exporter = exporter(&endpoint, &[], into(folder.path(), protocol));
    let offered = offer(&exporter, 1..101, 3);
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    assert_eq!(health.spans_spilled, offered);
    assert_eq!(lying(folder.path(), SPILL_FILE), offered);
    let error = health.last_error.clone().expect("an error");
    assert!(error.starts_with("Connection refused"), "{error}");
    assert!(error.ends_with("300 spans are kept in spill.otlp.jsonl"), "{error}");
    assert!(!format!("{health:?}").contains("hunter2"));
}

/// The collector holds the first batch for the whole test: offering goes on, and every loss is reported.
#[rstest]
fn a_stalled_collector_stops_nobody(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.judge(|_| Act::Stall);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        into(folder.path(), protocol)(config);
        config.limits.queue_spans = 2_000;
    });
    let offered = offer(&exporter, 1..2, 1);
    collector.wait(|received| !received.is_empty());
    let offered = offered + offer(&exporter, 2..10_002, 1);
    let so_far = exporter.health();
    assert_eq!(so_far.spans_sent, 0, "it is still stalled when the last offer has returned");
    let health = exporter.finish(Duration::from_millis(50));
    assert_balance(&health, offered);
    assert_eq!((health.spans_sent, health.spans_dropped), (0, 0), "{health:?}");
    assert_eq!(lying(folder.path(), SPILL_FILE), health.spans_spilled);
}

/// Half of the queue is too small for the load: the older part waits in the file and is sent in its order.
#[rstest]
fn what_waited_in_the_file_arrives_in_order(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.next([Act::Stall]);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        into(folder.path(), protocol)(config);
        config.limits = Limits { queue_spans: 400, batch_spans: 40, ..config.limits };
    });
    let mut offered = offer(&exporter, 1..11, 4);
    collector.wait(|received| !received.is_empty());
    for number in (11..211).step_by(10) {
        offered += offer(&exporter, number..number + 10, 4);
        // 40 are on their way and up to 200 may stay in the queue: the file takes the others.
        wait_until(|| exporter.health().spans_spilled >= offered.saturating_sub(240));
    }
    collector.release();
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 210), "{health:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left to keep");
    // Live spans and those from the file take turns, each kind in its order: two rising sequences, one in the
    // other.
    let mut last = [0, 0];
    for batch in collector.received() {
        let begin = batch.spans().map(|span| span.start_time_unix_nano).min().expect("no batch is empty");
        let before = last.iter_mut().filter(|last| **last < begin).max();
        *before.unwrap_or_else(|| panic!("{begin} comes too late")) = begin;
    }
}

#[rstest]
#[case::busy(Failure::Busy)]
#[case::throttled(Failure::Throttled)]
#[case::forbidden(Failure::Forbidden)]
#[case::internal(Failure::Internal)]
fn a_failure_that_passes_costs_nothing(
    #[case] failure: Failure,
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.next([Act::Fail(failure), Act::Fail(failure)]);
    let exporter = exporter(&collector.endpoint(), &[], into(folder.path(), protocol));
    let offered = offer(&exporter, 1..51, 3);
    collector.wait(|received| received.iter().any(|batch| batch.taken));
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 50), "{health:?}");
    assert_eq!(health.last_error, None, "it is over");
    assert_eq!(unique(&collector.taken()), offered);
}

/// A collector that is killed with a batch in hand, and one that comes back on its port.
#[rstest]
fn a_collector_dies_and_comes_back(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let folder = tempdir().expect("a folder");
    let first = Collector::start(protocol);
    let (endpoint, port) = (first.endpoint(), first.address().port());
    first.next([Act::Take, Act::Stall]);
    let exporter = exporter(&endpoint, &[], into(folder.path(), protocol));
    let mut offered = offer(&exporter, 1..11, 3);
    first.wait(|received| received.iter().any(|batch| batch.taken));
    offered += offer(&exporter, 11..21, 3);
    first.wait(|received| received.len() >= 2);
    let taken = unique(&first.taken());
    drop(first);
    offered += offer(&exporter, 21..31, 3);
    let second = Collector::start_on(protocol, port, None);
    second.wait(|received| received.iter().any(|batch| batch.taken));
    let health = exporter.finish(FINISH);
    assert_eq!(health.spans_sent, offered, "{health:?}");
    assert!(taken + unique(&second.taken()) >= offered, "what the first one did not take the second one did");
}

/// The connection breaks in the middle of a message.
#[rstest]
fn a_connection_breaks_half_way(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    let proxy = Proxy::start(collector.address(), 10_000);
    let exporter = exporter(&proxy.endpoint(), &[], into(folder.path(), protocol));
    let offered = offer(&exporter, 1..201, 4);
    wait_until(|| exporter.health().last_error.is_some());
    assert_eq!(exporter.health().spans_sent, 0, "no batch is smaller than what passes");
    proxy.stop_cutting();
    let health = exporter.finish(FINISH);
    assert_eq!(health.spans_sent, offered, "{health:?}");
    assert_eq!(unique(&collector.taken()), offered);
}

fn has_request(request: &ExportTraceServiceRequest, number: u64) -> bool {
    let spans = request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
    spans.into_iter().any(|span| span.trace_id == (u128::from(number) << 64 | 7).to_be_bytes())
}

/// Spans that the collector will never take do not hold up others.
#[rstest]
#[case::bad(Failure::BadSpans)]
#[case::it_fails_on_them(Failure::Internal)]
fn refused_spans_are_set_aside(
    #[case] failure: Failure,
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.judge(move |request| if has_request(request, 15) { Act::Fail(failure) } else { Act::Take });
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        into(folder.path(), protocol)(config);
        config.limits.batch_spans = 20;
    });
    let offered = offer(&exporter, 1..31, 4);
    collector.wait(|received| received.iter().filter(|batch| batch.taken).count() >= 5);
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    assert_eq!(health.spans_spilled, lying(folder.path(), REFUSED_FILE), "{health:?}");
    assert_eq!((health.spans_spilled, health.spans_dropped), (20, 0), "one batch, and not the others");
    let error = health.last_error.expect("an error");
    assert!(error.ends_with("20 spans refused; 20 spans are kept in refused.otlp.jsonl"), "{error}");
}

#[rstest]
fn too_large_batches_are_halved(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    collector.judge(|request| {
        let spans: usize =
            request.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum();
        if spans > 50 { Act::Fail(Failure::TooLarge) } else { Act::Take }
    });
    let exporter = exporter(&collector.endpoint(), &[], |config| config.protocol = Some(protocol));
    let offered = offer(&exporter, 1..301, 4);
    collector.wait(|received| received.iter().any(|batch| batch.taken));
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 300), "{health:?}");
    assert_eq!(unique(&collector.taken()), offered);
}

/// Each way in which the run folder may fail: the spans are dropped, and that is reported.
#[rstest]
#[case::no_folder(None, 1 << 20, "no run folder to keep spans in")]
#[case::gone(Some("gone"), 1 << 20, "No such file or directory")]
#[case::no_room(Some(""), 1_000, "is full at 1000 bytes")]
fn what_cannot_be_kept_is_dropped(#[case] folder: Option<&str>, #[case] spill_bytes: u64, #[case] why: &str) {
    let root = tempdir().expect("a folder");
    let endpoint = format!("http://127.0.0.1:{}", closed_port());
    let exporter = exporter(&endpoint, &[], |config| {
        config.folder = folder.map(|folder| held(&root.path().join(folder)));
        config.limits = Limits { spill_bytes, queue_spans: 500, ..config.limits };
    });
    let offered = offer(&exporter, 1..1_001, 4);
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    assert_eq!((health.spans_sent, health.spans_spilled), (0, 0), "{health:?}");
    let error = health.last_error.expect("an error");
    assert!(error.contains("Connection refused") && error.contains(why), "{error}");
}

/// A file that loses its lines while they wait.
#[test]
fn lines_that_vanish_are_counted() {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(Protocol::Grpc);
    collector.next([Act::Stall]);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        into(folder.path(), Protocol::Grpc)(config);
        config.limits = Limits { queue_spans: 100, batch_spans: 20, ..config.limits };
    });
    let mut offered = offer(&exporter, 1..6, 4);
    collector.wait(|received| !received.is_empty());
    offered += offer(&exporter, 6..30, 4);
    wait_until(|| exporter.health().spans_spilled > 0);
    fs::write(folder.path().join(SPILL_FRAMES), "").expect("it can be emptied");
    collector.release();
    let health = exporter.finish(FINISH);
    assert_balance(&health, offered);
    assert_eq!(health.spans_spilled, 0, "{health:?}");
    assert!(health.spans_dropped > 0 && health.spans_sent > 0, "{health:?}");
}

#[test]
fn an_exporter_that_is_just_dropped_keeps_what_it_has() {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(Protocol::Grpc);
    let attempts = AtomicU32::new(0);
    collector.judge(move |_| {
        attempts.fetch_add(1, Ordering::Relaxed);
        Act::Stall
    });
    let exporter = exporter(&collector.endpoint(), &[], into(folder.path(), Protocol::Grpc));
    let offered = offer(&exporter, 1..101, 3);
    drop(exporter);
    assert_eq!(lying(folder.path(), SPILL_FILE), offered);
}
