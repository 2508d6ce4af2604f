//! What a request looks like as spans, and how large.

use std::{borrow::Cow, sync::Arc};

use guestscope_contract::Account;
use insta::assert_snapshot;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData, span::SpanKind};
use rstest::rstest;

use super::{OFFSET_NS, found, phase, platform, request};
use crate::{
    otlp::{
        LiveVerdict, breakdown,
        service::{PerService, Resources},
        spans::{Trace, is_root},
        waits::Chosen,
    },
    phase::{Accounts, Counts, Ending, HelperWait, Helpers, Phase, PhaseKind, Request},
};

fn spans(request: Request, verdict: LiveVerdict) -> Vec<Span> {
    let trace = Trace::new(Arc::new(request), Chosen::default(), verdict, OFFSET_NS);
    trace.map(|(_, span)| span).collect()
}

/// A request with everything that a span can hold.
fn rich() -> Request {
    let root = Phase {
        duration_ns: 8_000_000,
        accounts: Accounts::from([
            (Account::Cpu, 6_000_000),
            (Account::Runq, 900_000),
            (Account::Throttled, 1_000_000),
            (Account::Fault, 60_000),
            (Account::Other, 40_000),
        ]),
        counts: Counts { switch_voluntary: 1, switch_involuntary: 12, migrate_node: 2, ..Counts::default() },
        edges_lost: 2,
        helpers: Helpers {
            accounts: Accounts::from([
                (Account::Cpu, 7_000_000),
                (Account::Runq, 900_000),
                (Account::Lock, 100_000),
            ]),
            threads: 1,
            shared: true,
            partial: true,
            wait: HelperWait { on_cpu: [700_000, 0, 0, 0], waiting: [100_000, 0, 0, 0] },
        },
        ..phase(42, 1, None, "infer")
    };
    let queue = Phase {
        kind: PhaseKind::Queue,
        start_ns: root.start_ns - 3_000_000,
        duration_ns: 3_000_000,
        accounts: Accounts::default(),
        ..phase(42, 2, Some(1), "queue")
    };
    let preprocess = Phase {
        start_ns: root.start_ns,
        duration_ns: 2_000_000,
        suspended_ns: 1_500_000,
        accounts: Accounts::from([(Account::Cpu, 500_000)]),
        ..phase(42, 3, Some(1), "preprocess")
    };
    let inference = Phase {
        start_ns: root.start_ns + 2_000_000,
        duration_ns: 6_000_000,
        ending: Ending::Lost,
        edges_lost: 1,
        ..phase(42, 4, Some(1), "inference")
    };
    Request { phases: vec![root, queue, preprocess, inference] }
}

#[test]
fn a_request_as_json() {
    let verdict = LiveVerdict { cause: Some(Cow::from("throttled")), tail: Some(Cow::from("p99")) };
    let program = spans(rich(), verdict);
    let request =
        Resources::new("infer", vec![platform()]).request(PerService { program, ..PerService::default() });
    let resource_spans = request.resource_spans;
    // A filter is a regular expression, and this text is full of numbers.
    let version = concat!('"', env!("CARGO_PKG_VERSION"), '"').replace('.', r"\.");
    insta::with_settings!({ filters => vec![(version.as_str(), r#""VERSION""#)] }, {
        insta::assert_json_snapshot!(TracesData { resource_spans });
    });
}

#[test]
fn a_process_is_a_trace_of_its_own() {
    let process = Phase { kind: PhaseKind::Process, ..phase(1, 1, None, "python3") };
    let spans = spans(Request { phases: vec![process] }, LiveVerdict::default());
    let [span] = &spans[..] else { panic!("one span, not {}", spans.len()) };
    assert_eq!(span.kind(), SpanKind::Internal);
    assert!(is_root(span));
    assert_eq!(found(&span.attributes, "guestscope.request"), None);
}

#[rstest]
#[case::unknown("", None)]
#[case::known("pool-1", Some("pool-1"))]
#[case::orders_for_a_terminal("t\u{1b}[2J\u{9b}\n\u{202e}", Some("t\u{fffd}[2J\u{fffd} \u{fffd}"))]
fn a_span_names_its_thread(#[case] comm: &str, #[case] expected: Option<&str>) {
    let named = Phase { comm: comm.into(), ..phase(1, 1, None, "infer") };
    let spans = spans(Request { phases: vec![named] }, LiveVerdict::default());
    assert_eq!(found(&spans[0].attributes, "thread.name").as_deref(), expected);
}

#[test]
fn a_request_joins_the_trace_of_the_program() {
    let mut joined = phase(1, 1, None, "infer");
    joined.trace.parent_span_id = Some([9; 8]);
    joined.trace.parent_is_remote = true;
    let spans = spans(Request { phases: vec![joined] }, LiveVerdict::default());
    assert!(is_root(&spans[0]));
    // Bit 8: it is known whether the parent is remote. Bit 9: it is. Bit 0: sampled.
    assert_eq!(spans[0].flags, 0x301);
}

#[rstest]
#[case::nothing(&[], 0, None)]
#[case::biggest_first(&[(Account::Cpu, 900_000), (Account::Throttled, 35_100_000), (Account::Other, 55_600_000)], 0,
    Some("other 55.6 ms, throttled 35.1 ms, rest 0.9 ms"))]
#[case::one_per_cent_is_shown(&[(Account::Cpu, 99), (Account::Runq, 1)], 0, Some("cpu 99 ns, runq 1 ns"))]
#[case::below_is_summed(&[(Account::Cpu, 1_980_000), (Account::Runq, 19_000), (Account::Throttled, 1_000)], 0,
    Some("cpu 2.0 ms, rest 20.0 us"))]
#[case::suspended(&[(Account::Cpu, 1_000)], 2_000_000_000, Some("suspended 2.00 s, rest 1.0 us"))]
fn breakdowns(#[case] parts: &[(Account, u64)], #[case] suspended_ns: u64, #[case] expected: Option<&str>) {
    let accounts = Accounts::default();
    let mut phase = Phase { accounts, suspended_ns, ..phase(1, 1, None, "infer") };
    for part in parts {
        phase.accounts.add(&Accounts::from([*part]));
    }
    assert_eq!(breakdown::line(&phase).as_deref(), expected);
}

#[test]
fn a_breakdown_reads_well() {
    assert_snapshot!(breakdown::line(&rich().phases[0]).expect("it has accounts"),
        @"cpu 6.0 ms, throttled 1.0 ms, runq 0.9 ms, rest 0.1 ms");
}

#[test]
fn a_breakdown_says_what_of_poll_was_for_sockets() {
    let accounts = Accounts::from([(Account::Poll, 12_000_000)]);
    let mut phase = Phase { accounts, ..phase(1, 1, None, "infer") };
    phase.counts.poll_net_ns = 11_800_000;
    assert_snapshot!(breakdown::line(&phase).expect("it has accounts"), @"poll 12.0 ms (net ~11.8 ms)");
}

#[test]
fn a_wall_clock_before_1970_stays_readable() {
    let trace = Trace::new(request(1, 2), Chosen::default(), LiveVerdict::default(), i64::MIN);
    let starts: Vec<u64> = trace.map(|(_, span)| span.start_time_unix_nano).collect();
    assert_eq!(starts, [0, 0]);
}
