//! Tests of the export: pure parts by property and snapshot, the rest against collectors in this process that
//! take, reject, refuse, stall and die. Nothing here asserts a time.

mod collector;
mod delivery;
mod endless;
mod files;
mod gpus;
mod kernel;
mod outages;
mod pauses;
mod proxy;
mod queue;
mod requests;
mod settings;
mod spans;
mod timeline;
mod tls;
mod trouble;
mod wait_spans;
mod waits;

use std::{
    borrow::Cow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use guestscope_contract::{Account, Source};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use crate::{
    clock::ClockPair,
    guarded::Directory,
    otlp::{Config, Exporter, Limits, LiveVerdict, Value, WallClock},
    phase::{Accounts, Counts, Ending, Phase, PhaseKind, Request, ThreadId, TraceIds, Wait},
};

/// 2026-01-01T00:00:00Z less a machine that has been up for 1,000 s.
const OFFSET_NS: i64 = 1_767_225_600_000_000_000 - 1_000_000_000_000;

/// A folder, held open; one that does not exist is made and removed first.
fn held(folder: &Path) -> Directory {
    if folder.exists() {
        return Directory::open(folder).expect("a folder");
    }
    std::fs::create_dir(folder).expect("a folder");
    let held = Directory::open(folder).expect("a folder");
    std::fs::remove_dir(folder).expect("it is empty");
    held
}

/// An attribute of a resource.
fn platform() -> (Cow<'static, str>, Value) {
    (Cow::from("guestscope.platform"), Value::StringValue("VM".to_owned()))
}

/// An attribute as `key=value`.
pub(super) fn shown(attribute: &KeyValue) -> String {
    fn value(of: Option<&AnyValue>) -> String {
        match of.and_then(|of| of.value.as_ref()).expect("an attribute has a value") {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            Value::BoolValue(truth) => truth.to_string(),
            Value::ArrayValue(list) => {
                let texts = list.values.iter().map(|of| format!("{:?}", value(Some(of))));
                format!("[{}]", texts.collect::<Vec<_>>().join(","))
            }
            Value::DoubleValue(_)
            | Value::KvlistValue(_)
            | Value::BytesValue(_)
            | Value::StringValueStrindex(_) => panic!("none of ours: {of:?}"),
        }
    }
    format!("{}={}", attribute.key, value(attribute.value.as_ref()))
}

/// The value of an attribute in this list.
fn found(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    shown(attribute).split_once('=').map(|(_, value)| value.to_owned())
}

/// A phase of request `number`, 1 ms on a CPU, for cases to change.
pub(super) fn phase(number: u64, id: u64, parent: Option<u64>, name: &str) -> Phase {
    let span = |id: u64| (number << 16 | id).to_be_bytes();
    Phase {
        id: number * 1_000 + id,
        parent: parent.map(|parent| number * 1_000 + parent),
        root: number * 1_000 + 1,
        kind: if parent.is_none() { PhaseKind::Request } else { PhaseKind::Phase },
        name: name.into(),
        name_damaged: false,
        source: Source::Marker,
        status: None,
        request: number,
        thread: ThreadId { tid: 4711, tgid: 4700, born_ns: 1 },
        comm: "pool-1".into(),
        start_ns: 1_000_000_000_000 + number * 10_000_000 + id * 1_000_000,
        duration_ns: 1_000_000,
        suspended_ns: 0,
        accounts: Accounts::from([(Account::Cpu, 1_000_000)]),
        counts: Counts::default(),
        helpers: crate::phase::Helpers::default(),
        trace: TraceIds {
            trace_id: (u128::from(number) << 64 | 7).to_be_bytes(),
            span_id: span(id),
            parent_span_id: parent.map(span),
            parent_is_remote: false,
        },
        ending: Ending::Ended,
        edges_lost: 0,
        pause_ns: 0,
        holder: None,
    }
}

/// A wait in a phase, so long after its start: for a lock at first, for a CPU in its last tenth.
fn wait(phase: &Phase, after_ns: u64, duration_ns: u64) -> Wait {
    Wait {
        phase: Some(phase.id),
        root: Some(phase.root),
        thread: phase.thread,
        start_ns: phase.start_ns + after_ns,
        duration_ns,
        account: Account::Lock,
        blocked_ns: duration_ns - duration_ns / 10,
        throttled_ns: 0,
        syscall: Some(202),
        left_cpu: 0,
        cpu: 3,
        waker_tid: Some(4712),
        replaced_by_tid: 0,
        ran_before_tid: 99,
        ran_before_tgid: 98,
        ran_before_comm: "stress-ng-cpu".into(),
        ..Wait::default()
    }
}

/// A request with so many phases in all.
fn request(number: u64, phases: u64) -> Arc<Request> {
    let mut all: Vec<Phase> = (2..=phases).map(|id| phase(number, id, Some(1), "inference")).collect();
    let mut root = phase(number, 1, None, "infer");
    root.duration_ns = phases * 1_000_000;
    root.accounts.0[0] = root.duration_ns;
    all.insert(0, root);
    Arc::new(Request { phases: all })
}

/// An exporter to `endpoint`, quick to retry, in the environment `variables`.
fn exporter(endpoint: &str, variables: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Exporter {
    let mut config = Config {
        endpoint: Some(endpoint.to_owned()),
        service_name: "infer".to_owned(),
        resource: vec![platform()],
        clock: WallClock::new(ClockPair { monotonic_ns: 0, wall_ns: OFFSET_NS.cast_unsigned() }),
        limits: Limits {
            linger: Duration::from_millis(5),
            first_delay: Duration::from_millis(1),
            resend_spans_per_s: u32::MAX,
            ..Limits::default()
        },
        ..Config::default()
    };
    change(&mut config);
    Exporter::start_in(config, &environment(variables)).expect("the settings are right")
}

/// An environment with these variables and no others.
fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

/// Offers requests `numbers` of `phases` spans each. Returns the number of spans.
fn offer(exporter: &Exporter, numbers: std::ops::Range<u64>, phases: u64) -> u64 {
    let spans = (numbers.end - numbers.start) * phases;
    for number in numbers {
        exporter.offer(request(number, phases), LiveVerdict::default());
    }
    spans
}

/// Waits until it is so, for half a minute at most.
fn wait_until(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come to pass");
        std::thread::sleep(Duration::from_millis(1));
    }
}
