//! Export of wait spans: a service of their own beside the program's, with the same limits, counters and
//! files.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use rstest::rstest;
use tempfile::tempdir;

use super::{
    collector::{Act, Collector, Failure, Received},
    delivery::assert_balance,
    exporter, found, held, request, wait, wait_until,
};
use crate::{
    otlp::{Exporter, FINISH, Limits, LiveVerdict, Protocol, SPILL_FILE, spans::is_root},
    phase::Phase,
};

/// Offers a request with so many waits of 100 us and more in each phase. Returns the number of spans.
fn offer(exporter: &Exporter, number: u64, phases: u64, waits: u64) -> u64 {
    let mut request = request(number, phases).as_ref().clone();
    for phase in &mut request.phases {
        // Long enough for its waits.
        phase.duration_ns = 5_000_000;
        for at in 0..waits {
            exporter.wait(wait(phase, at * 4_000, 100_000 + at));
        }
    }
    exporter.offer(request.into(), LiveVerdict::default());
    phases + phases * waits.min(8)
}

/// An attribute of a resource.
fn told(of: &ResourceSpans, key: &str) -> Option<String> {
    found(&of.resource.as_ref().expect("a resource").attributes, key)
}

fn spans_of(of: &ResourceSpans) -> impl Iterator<Item = &Span> {
    of.scope_spans.iter().flat_map(|scope| &scope.spans)
}

/// Spans of these requests by service; asserts that none came twice.
#[track_caller]
fn by_service<'a>(received: impl IntoIterator<Item = &'a Received>) -> BTreeMap<String, Vec<Span>> {
    let mut services: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    let mut ids = HashSet::new();
    for of in received.into_iter().flat_map(|received| &received.request.resource_spans) {
        let name = told(of, "service.name").expect("a service has a name");
        for span in spans_of(of) {
            assert!(ids.insert((span.trace_id.clone(), span.span_id.clone())), "twice: {span:?}");
            services.entry(name.clone()).or_default().push(span.clone());
        }
    }
    services
}

/// The requests that were taken, in order.
fn taken(collector: &Collector) -> Vec<Received> {
    let mut received = collector.received();
    received.retain(|received| received.taken);
    received
}

#[rstest]
fn waits_are_a_service_of_their_own(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
    #[values("none", "gzip")] compression: &str,
) {
    let collector = Collector::start(protocol);
    let variables = [("OTEL_EXPORTER_OTLP_COMPRESSION", compression)];
    let exporter = exporter(&collector.endpoint(), &variables, |config| config.protocol = Some(protocol));
    let offered: u64 = (1..101).map(|number| offer(&exporter, number, 3, 2)).sum();
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 100), "{health:?}");
    let services = by_service(&taken(&collector));
    assert_eq!(services.keys().collect::<Vec<_>>(), ["infer", "kernel"]);
    assert_eq!((services["infer"].len(), services["kernel"].len()), (300, 600));
    let phases: HashSet<_> = services["infer"].iter().map(|span| (&span.trace_id, &span.span_id)).collect();
    for span in &services["kernel"] {
        assert!(phases.contains(&(&span.trace_id, &span.parent_span_id)), "{span:?}");
    }
    for of in collector.received().iter().flat_map(|received| &received.request.resource_spans) {
        let is_kernel = told(of, "service.name").as_deref() == Some("kernel");
        assert_eq!(told(of, "service.namespace").as_deref(), is_kernel.then_some("infer"));
        assert_eq!(told(of, "guestscope.platform").as_deref(), Some("VM"), "the rest is the same");
    }
}

/// A batch is one request, not one for each service.
#[rstest]
fn one_request_carries_both_services(#[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol) {
    let collector = Collector::start(protocol);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.limits.linger = Duration::from_hours(1);
    });
    let offered: u64 = (1..11).map(|number| offer(&exporter, number, 3, 2)).sum();
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 10), "{health:?}");
    let received = collector.received();
    let [received] = &received[..] else { panic!("one request, not {}", received.len()) };
    let services: Vec<_> = received
        .request
        .resource_spans
        .iter()
        .map(|of| (told(of, "service.name").expect("a name"), spans_of(of).count()))
        .collect();
    assert_eq!(services, [("kernel".to_owned(), 60), ("infer".to_owned(), 30)]);
}

/// A phase with 3,000 waits shows eight as spans and 32 as events; batches stay within their limits.
#[rstest]
fn a_storm_of_waits_stays_within_the_limits(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let collector = Collector::start(protocol);
    let limits = Limits { batch_spans: 100, batch_bytes: 32 << 10, ..Limits::default() };
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.limits = limits;
    });
    let offered: u64 = (1..11).map(|number| offer(&exporter, number, 10, 1_000)).sum();
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 10), "{health:?}");
    assert_eq!((health.waits_left_out, health.spans_dropped), (0, 0));
    let services = by_service(&taken(&collector));
    assert_eq!((services["infer"].len(), services["kernel"].len()), (100, 800));
    for span in &services["infer"] {
        assert_eq!((span.events.len(), span.dropped_events_count), (32, 1_000 - 8 - 32), "{span:?}");
    }
    for batch in collector.received() {
        assert!(batch.spans().count() <= limits.batch_spans);
        assert!(batch.request.encoded_len() <= limits.batch_bytes, "{} bytes", batch.request.encoded_len());
    }
}

/// The queue counts the memory of waits: a request whose waits have no room is dropped as a whole.
#[test]
fn waits_fill_the_queue() {
    let collector = Collector::start(Protocol::Grpc);
    collector.judge(|_| Act::Stall);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(Protocol::Grpc);
        // Room for three requests, or for one with as many waits.
        let queue_bytes = 6 * (size_of::<Phase>() + "inference".len());
        let (linger, patience) = (Duration::from_hours(1), Duration::ZERO);
        config.limits = Limits { queue_bytes, patience, linger, ..config.limits };
    });
    let offered: u64 = (1..4).map(|number| offer(&exporter, number, 2, 40)).sum();
    assert_eq!(exporter.health().spans_dropped, 2 * offered / 3, "{:?}", exporter.health());
    let health = exporter.finish(Duration::ZERO);
    assert_balance(&health, offered);
}

/// Spans from the file come back under both service names.
#[rstest]
fn both_services_come_back_from_the_file(
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.next([Act::Stall]);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(protocol);
        config.folder = Some(held(folder.path()));
        config.limits = Limits { queue_spans: 200, batch_spans: 40, ..config.limits };
    });
    let mut offered = offer(&exporter, 1, 4, 3);
    collector.wait(|received| !received.is_empty());
    for number in 2..52 {
        offered += offer(&exporter, number, 4, 3);
        wait_until(|| exporter.health().spans_spilled >= offered.saturating_sub(160));
    }
    collector.release();
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 51), "{health:?}");
    assert!(!folder.path().join(SPILL_FILE).exists(), "nothing is left to keep");
    let services = by_service(&taken(&collector));
    // The first batch was stalled, and is not among the taken ones.
    let first = by_service(&collector.received()[..1]);
    let all = |service: &str| services[service].len() + first.get(service).map_or(0, Vec::len);
    assert_eq!((all("infer"), all("kernel")), (4 * 51, 12 * 51));
}

/// A collector that is away at the end, and one that wants smaller batches.
#[test]
fn waits_are_kept_and_halved_like_phases() {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(Protocol::Grpc);
    collector.judge(|request| {
        let spans: usize =
            request.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum();
        if spans > 30 { Act::Fail(Failure::TooLarge) } else { Act::Take }
    });
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        config.protocol = Some(Protocol::Grpc);
        config.folder = Some(held(folder.path()));
    });
    let offered: u64 = (1..31).map(|number| offer(&exporter, number, 3, 8)).sum();
    collector.wait(|received| received.iter().any(|batch| batch.taken));
    let health = exporter.finish(FINISH);
    assert_eq!((health.spans_sent, health.traces_sent), (offered, 30), "{health:?}");
    let services = by_service(&taken(&collector));
    assert_eq!((services["infer"].len(), services["kernel"].len()), (90, 720));
    // When the outermost span of a trace has been taken, so have its waits.
    let mut waits: HashMap<Vec<u8>, usize> = HashMap::new();
    for of in taken(&collector).iter().flat_map(|received| &received.request.resource_spans) {
        let is_kernel = told(of, "service.name").as_deref() == Some("kernel");
        for span in spans_of(of) {
            if is_kernel {
                *waits.entry(span.trace_id.clone()).or_default() += 1;
            } else if is_root(span) {
                assert_eq!(waits.get(&span.trace_id), Some(&(3 * 8)));
            }
        }
    }
}
