//! The trace of a request with waits: two services, ids and times.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use guestscope_contract::Account;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use proptest::prelude::*;

use super::{OFFSET_NS, found, phase, platform, wait};
use crate::{
    otlp::{
        LiveVerdict, Value,
        service::{PerService, Resources, Service},
        spans::{Trace, is_root},
        timeline::{DRIFT_NS, GAP_NS},
        waits::Keeper,
    },
    phase::{Phase, Request, Wait, WaitedIo},
};

fn trace(request: Request, waits: impl IntoIterator<Item = Wait>) -> Vec<(Service, Span)> {
    let mut keeper = Keeper::default();
    waits.into_iter().for_each(|wait| keeper.add(wait));
    let chosen = keeper.take(&request);
    Trace::new(Arc::new(request), chosen, LiveVerdict::default(), OFFSET_NS).collect()
}

fn by_service(trace: Vec<(Service, Span)>) -> PerService<Vec<Span>> {
    let mut spans = PerService::<Vec<Span>>::default();
    for (service, span) in trace {
        spans.get_mut(service).push(span);
    }
    spans
}

/// A request with a phase that waited for a lock, for a CPU and for a moment.
fn rich() -> (Request, Vec<Wait>) {
    let root = Phase { duration_ns: 60_000_000, ..phase(42, 1, None, "infer") };
    let inference = Phase {
        start_ns: root.start_ns + 1_000_000,
        duration_ns: 50_000_000,
        ..phase(42, 2, Some(1), "inference")
    };
    let preempted = Wait {
        account: Account::Runq,
        blocked_ns: 0,
        throttled_ns: 6_000_000,
        syscall: None,
        cpu: 0,
        waker_tid: None,
        replaced_by_tid: 99,
        ..wait(&inference, 30_000_000, 9_000_001)
    };
    let for_a_disk = Wait {
        account: Account::BlockIo,
        syscall: Some(74),
        io: Some(WaitedIo {
            device: "259:1".into(),
            name: "nvme0n1p1".into(),
            is_write: true,
            ..WaitedIo::default()
        }),
        ..wait(&root, 52_000_000, 2_000_000)
    };
    let waits = vec![
        for_a_disk,
        wait(&inference, 1_000_000, 12_345_678),
        preempted,
        wait(&inference, 45_000_000, 120_000),
    ];
    (Request { phases: vec![root, inference] }, waits)
}

#[test]
fn a_trace_with_waits_as_json() {
    let (request, waits) = rich();
    let resources = Resources::new("infer", vec![platform()]);
    let resource_spans = resources.request(by_service(trace(request, waits))).resource_spans;
    let version = concat!('"', env!("CARGO_PKG_VERSION"), '"').replace('.', r"\.");
    insta::with_settings!({ filters => vec![(version.as_str(), r#""VERSION""#)] }, {
        insta::assert_json_snapshot!(TracesData { resource_spans });
    });
}

#[test]
fn the_outermost_span_comes_last_and_waits_are_no_roots() {
    let (request, waits) = rich();
    let mut trace = trace(request, waits);
    let (service, last) = trace.pop().expect("spans");
    assert!(is_root(&last) && service == Service::Program);
    assert!(!trace.iter().any(|(_, span)| is_root(span)));
    assert_eq!(by_service(trace).kernel.len(), 3);
}

/// The program may be called `kernel`, have a namespace of its own, and any text in it.
#[test]
fn the_kernel_is_known_whatever_the_program_is_called() {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let attributes = vec![
        (Cow::from("service.namespace"), text("mall")),
        (Cow::from("service.namespace"), text("shop\u{1b}[2J")),
        (Cow::from("process.pid"), Value::IntValue(7)),
    ];
    let (request, waits) = rich();
    let request = Resources::new("kernel", attributes).request(by_service(trace(request, waits)));
    let seen = request.resource_spans.iter().map(|of| {
        let attributes = &of.resource.as_ref().expect("a resource").attributes;
        let scope = of.scope_spans[0].scope.as_ref().expect("a scope");
        let told = |key| found(attributes, key).expect("an attribute");
        assert_eq!((attributes.len(), told("process.pid")), (3, "7".to_owned()), "a key stands once");
        (scope.name.as_str(), told("service.name"), told("service.namespace"), of.scope_spans[0].spans.len())
    });
    let kernel = ("guestscope.kernel", "kernel".to_owned(), "kernel".to_owned(), 3);
    let program = ("guestscope", "kernel".to_owned(), "shop\u{fffd}[2J".to_owned(), 2);
    assert_eq!(seen.collect::<Vec<_>>(), [kernel, program]);
}

/// A request of one phase with two inner ones, and waits of its threads, in the middle or at the edges.
fn with_waits() -> impl Strategy<Value = (Request, Vec<Wait>)> {
    let place = (0_usize..3, 0_u64..9_000, 1_u64..9_000);
    let waits = prop::collection::vec(place, 0..60);
    (prop::array::uniform3(100_u64..9_000), waits).prop_map(|(lengths, places)| {
        let root = Phase { duration_ns: lengths.iter().sum::<u64>() * 1_000, ..phase(3, 1, None, "infer") };
        let mut phases = vec![root];
        for (id, length) in (2..).zip(&lengths[..2]) {
            let before = &phases[id as usize - 2];
            let start_ns = before.start_ns + if id == 2 { 0 } else { before.duration_ns };
            let inner = Phase { start_ns, duration_ns: length * 1_000, ..phase(3, id, Some(1), "inner") };
            phases.push(inner);
        }
        let waits = places.into_iter().map(|(at, after_us, length_us)| {
            let phase = &phases[at];
            wait(phase, (after_us * 1_000).min(phase.duration_ns), length_us * 1_000)
        });
        let waits = waits.collect();
        (Request { phases }, waits)
    })
}

proptest! {
    /// Any waits: inside their phases, near their times, with ids of their own, and their numbers exact.
    #[test]
    fn waits_lie_in_their_phases_and_nowhere_twice((request, waits) in with_waits()) {
        let PerService { program, kernel, gpu: _ } = by_service(trace(request, waits.clone()));
        let spans: Vec<&Span> = program.iter().chain(&kernel).collect();
        let ids: HashSet<_> = spans.iter().map(|span| &span.span_id).collect();
        prop_assert_eq!(ids.len(), spans.len());
        for span in &kernel {
            let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
            let parent = parent.expect("it has a parent");
            prop_assert!(parent.start_time_unix_nano <= span.start_time_unix_nano);
            prop_assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
            prop_assert!(span.end_time_unix_nano <= parent.end_time_unix_nano);
            prop_assert_eq!(&span.trace_id, &parent.trace_id);
            let number =
                |key: &str| found(&span.attributes, key).map_or(0, |text| text.parse().expect("a number"));
            let of = parent.span_id.clone().try_into().expect("eight bytes");
            let duration_ns: u64 = number("guestscope.duration_ns");
            let is_it = |wait: &&Wait| span.span_id == wait.span_id(of) && wait.duration_ns == duration_ns;
            let row = waits.iter().find(is_it).expect("it is one of them");
            let parts = ["blocked", "throttled", "runq"].map(|part| number(&format!("guestscope.{part}_ns")));
            prop_assert_eq!(parts, [row.blocked_ns, row.throttled_ns, row.runq_ns()]);
            prop_assert_eq!(parts.iter().sum::<u64>(), row.duration_ns);
            let near = DRIFT_NS + 2 * GAP_NS;
            let start_ns = span.start_time_unix_nano - OFFSET_NS.cast_unsigned();
            // Only its start: the end is cut off at the phase's end.
            prop_assert!(start_ns.abs_diff(row.start_ns) <= near, "{:?} for {:?}", span, row);
        }
    }
}
