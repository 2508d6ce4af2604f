//! Nothing is lost without need: bursts larger than the queue, collectors of all kinds that take nothing, and
//! delivery once one is back.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use rstest::rstest;
use tempfile::tempdir;

use super::{
    collector::{Act, Collector, Failure},
    delivery::assert_balance,
    exporter, request,
    trouble::{closed_port, into, unique},
    wait_until,
};
use crate::{
    otlp::{
        Config, Exporter, FINISH, LiveVerdict, Protocol,
        keep::{REFUSED_FRAMES, SPILL_FRAMES},
        message::count,
    },
    phase::Request,
};

/// A request whose spans have values that once caused losses: a boolean, a list, a remote parent.
fn rich(number: u64, phases: u64) -> Arc<Request> {
    let mut request = request(number, phases).as_ref().clone();
    for phase in &mut request.phases {
        phase.helpers.shared = true;
        phase.edges_lost = 1;
    }
    request.phases[0].trace.parent_span_id = Some([9; 8]);
    request.phases[0].trace.parent_is_remote = true;
    request.into()
}

/// Offering waits until the disk has taken a burst, on a machine of any speed.
fn patient(folder: &Path, protocol: Protocol) -> impl FnOnce(&mut Config) {
    move |config| {
        into(folder, protocol)(config);
        config.limits.patience = Duration::from_mins(1);
    }
}

/// Offers so many requests of five spans as fast as possible. Returns the number of spans.
fn burst(exporter: &Exporter, requests: u64) -> u64 {
    let requests: Vec<Arc<Request>> = (1..=requests).map(|number| rich(number, 5)).collect();
    let spans = requests.len() as u64 * 5;
    for request in requests {
        exporter.offer(request, LiveVerdict::default());
    }
    spans
}

/// Spans in the files of frames.
fn framed(folder: &Path) -> u64 {
    let of = |name| {
        let Ok(file) = fs::File::open(folder.join(name)) else { return 0 };
        let plain = zstd::stream::decode_all(file).expect("it is a whole zstd file");
        count(&ExportTraceServiceRequest::decode(&plain[..]).expect("it is one message"))
    };
    of(SPILL_FRAMES) + of(REFUSED_FRAMES)
}

/// A server that speaks no protocol. It ends with the process.
fn server(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}")
}

/// Reads and never answers.
fn silent(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

/// Answers any request without end.
fn endless(mut stream: TcpStream) {
    let mut bytes = vec![b'x'; 1 << 16];
    let _ = stream.read(&mut bytes);
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 4294967296\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
    while stream.write_all(&bytes).is_ok() {}
}

/// Sends a byte of an answer now and then.
fn drip(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
    while stream.write_all(b"x").is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
}

/// Redirects.
fn redirect(mut stream: TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
        let answer =
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/v1/traces\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A burst larger than the queue, to a collector that takes none of it: all of it is on the disk.
#[rstest]
#[case::nobody_there(|| format!("http://127.0.0.1:{}", closed_port()))]
#[case::silent(|| server(silent))]
#[case::endless(|| server(endless))]
#[case::drip(|| server(drip))]
#[case::redirect(|| server(redirect))]
#[case::closes_at_once(|| server(drop))]
fn a_burst_goes_to_the_disk(
    #[case] start: fn() -> String,
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let exporter =
        exporter(&start(), &[("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")], patient(folder.path(), protocol));
    let offered = burst(&exporter, 5_000);
    let health = exporter.finish(Duration::from_millis(50));
    assert_balance(&health, offered);
    assert_eq!((health.spans_dropped, health.spans_sent), (0, 0), "{health:?}");
    assert_eq!(framed(folder.path()), offered);
    let error = health.last_error.unwrap_or_default();
    assert!(error.contains(&format!("{offered} spans are kept in {SPILL_FRAMES}")), "{error}");
}

/// The same to a collector that first refuses and then takes: every span arrives.
#[rstest]
#[case::busy(Act::Fail(Failure::Busy))]
#[case::stalled(Act::Stall)]
#[case::failing(Act::Fail(Failure::Throttled))]
fn what_an_outage_kept_arrives_when_it_is_over(
    #[case] act: Act,
    #[values(Protocol::Grpc, Protocol::HttpProtobuf)] protocol: Protocol,
) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.judge(move |_| act.clone());
    let variables = [("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")];
    let exporter = exporter(&collector.endpoint(), &variables, patient(folder.path(), protocol));
    let offered = burst(&exporter, 5_000);
    wait_until(|| exporter.health().spans_spilled > offered / 2);
    collector.judge(|_| Act::Take);
    collector.release();
    wait_until(|| exporter.health().spans_sent == offered);
    let health = exporter.finish(FINISH);
    assert_eq!(
        (health.spans_sent, health.spans_spilled, health.spans_dropped),
        (offered, 0, 0),
        "{health:?}"
    );
    assert_eq!(unique(&collector.taken()), offered);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left to keep");
}

/// The program ends before all waiting spans are sent: the rest stays, to the span.
#[test]
fn what_the_end_does_not_wait_for_stays() {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(Protocol::Grpc);
    collector.judge(|_| Act::Stall);
    let exporter = exporter(&collector.endpoint(), &[], |config| {
        patient(folder.path(), Protocol::Grpc)(config);
        config.limits.resend_spans_per_s = 1;
    });
    let offered = burst(&exporter, 5_000);
    collector.wait(|received| !received.is_empty());
    collector.judge(|_| Act::Take);
    collector.release();
    wait_until(|| exporter.health().spans_sent > 0);
    let health = exporter.finish(Duration::from_millis(1));
    assert_balance(&health, offered);
    assert_eq!(health.spans_dropped, 0, "{health:?}");
    assert_eq!(framed(folder.path()), health.spans_spilled);
}

/// A collector that says nothing is named with how long it was waited for.
#[rstest]
#[case::grpc(Protocol::Grpc, "Timeout expired")]
#[case::http(Protocol::HttpProtobuf, "no answer within 100 ms")]
fn a_collector_without_an_answer_is_told(#[case] protocol: Protocol, #[case] expected: &str) {
    let folder = tempdir().expect("a folder");
    let collector = Collector::start(protocol);
    collector.judge(|_| Act::Stall);
    let variables = [("OTEL_EXPORTER_OTLP_TIMEOUT", "100")];
    let exporter = exporter(&collector.endpoint(), &variables, into(folder.path(), protocol));
    exporter.offer(request(1, 3), LiveVerdict::default());
    wait_until(|| exporter.health().last_error.is_some_and(|error| error.contains(expected)));
    let health = exporter.finish(Duration::ZERO);
    assert_balance(&health, 3);
}
