//! The trace of a request with waits: two services, ids, times, sizes, and lines of the spill file.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use guestscope_contract::Account;
use opentelemetry_proto::{
    tonic::trace::v1::{ScopeSpans, TracesData},
    transform::trace::tonic::group_spans_by_resource_and_scope,
};
use opentelemetry_sdk::trace::SpanData;
use proptest::prelude::*;
use prost::Message;

use super::{OFFSET_NS, phase, wait};
use crate::{
    otlp::{
        LiveVerdict,
        service::{self, Service},
        size::span_bytes,
        spans::{Trace, is_root},
        timeline::{DRIFT_NS, GAP_NS},
        waits::Keeper,
        wire,
    },
    phase::{Phase, Request, Wait, WaitedIo},
};

fn trace(request: Request, waits: impl IntoIterator<Item = Wait>) -> Vec<SpanData> {
    let mut keeper = Keeper::default();
    waits.into_iter().for_each(|wait| keeper.add(wait));
    let chosen = keeper.take(&request);
    Trace::new(Arc::new(request), chosen, LiveVerdict::default(), OFFSET_NS).collect()
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
        io: Some(WaitedIo { device: "259:1".into(), name: "nvme0n1p1".into(), is_write: true }),
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
    let attributes = vec![(Cow::from("guestscope.platform"), "VM".into())];
    let (resources, _) = service::resources("infer", attributes);
    let (kernel, program): (Vec<SpanData>, Vec<SpanData>) =
        trace(request, waits).into_iter().partition(|span| Service::of(span) == Service::Kernel);
    let mut resource_spans = group_spans_by_resource_and_scope(kernel, &(&resources.kernel).into());
    resource_spans.extend(group_spans_by_resource_and_scope(program, &(&resources.program).into()));
    // The resource is a set without an order.
    for resource in resource_spans.iter_mut().filter_map(|of| of.resource.as_mut()) {
        resource.attributes.sort_by(|one, other| one.key.cmp(&other.key));
    }
    let version = concat!('"', env!("CARGO_PKG_VERSION"), '"').replace('.', r"\.");
    insta::with_settings!({ filters => vec![(version.as_str(), r#""VERSION""#)] }, {
        insta::assert_json_snapshot!(TracesData { resource_spans });
    });
}

#[test]
fn the_outermost_span_comes_last_and_waits_are_no_roots() {
    let (request, waits) = rich();
    let mut trace = trace(request, waits);
    let last = trace.pop().expect("spans");
    assert!(is_root(&last) && Service::of(&last) == Service::Program);
    assert!(!trace.iter().any(is_root));
    assert_eq!(trace.iter().filter(|span| Service::of(span) == Service::Kernel).count(), 3);
}

/// The program may be called `kernel`, and have a namespace of its own.
#[test]
fn the_kernel_is_known_whatever_the_program_is_called() {
    let attributes = vec![(Cow::from("service.namespace"), "shop".into())];
    let (resources, _) = service::resources("kernel", attributes);
    let namespace = |service| {
        resources.get(service).get(&"service.namespace".into()).map(|value| value.as_str().into_owned())
    };
    assert_eq!(namespace(Service::Program).as_deref(), Some("shop"));
    assert_eq!(namespace(Service::Kernel).as_deref(), Some("kernel"));
    let (request, waits) = rich();
    let kernel = trace(request, waits).iter().filter(|span| Service::of(span) == Service::Kernel).count();
    assert_eq!(kernel, 3);
}

#[test]
fn they_come_back_from_a_message_as_they_went() {
    let (request, waits) = rich();
    let (resources, _) = service::resources("infer", Vec::new());
    let spans = trace(request, waits);
    assert!(spans.iter().any(|span| !span.events.is_empty()), "one of them has events");
    let message = wire::message(spans.clone(), &(&resources.kernel).into());
    let mut back = wire::spans(message).expect("we wrote it");
    // The library groups by scope.
    let order = |span: &SpanData| span.span_context.span_id().to_bytes();
    back.sort_by_key(order);
    let mut spans = spans;
    spans.sort_by_key(order);
    assert_eq!(back, spans);
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
        let spans = trace(request, waits.clone());
        let ids: HashSet<_> = spans.iter().map(|span| span.span_context.span_id()).collect();
        prop_assert_eq!(ids.len(), spans.len());
        let offset_ns = OFFSET_NS.cast_unsigned();
        let ns = |time: std::time::SystemTime| {
            time.duration_since(std::time::UNIX_EPOCH).expect("later").as_nanos() as u64 - offset_ns
        };
        for span in spans.iter().filter(|span| Service::of(span) == Service::Kernel) {
            let parent = spans.iter().find(|other| other.span_context.span_id() == span.parent_span_id);
            let parent = parent.expect("it has a parent");
            prop_assert!(parent.start_time <= span.start_time && span.start_time <= span.end_time);
            prop_assert!(span.end_time <= parent.end_time);
            prop_assert_eq!(span.span_context.trace_id(), parent.span_context.trace_id());
            let number = |key: &str| {
                let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
                found.map_or(0, |attribute| {
                    let opentelemetry::Value::I64(number) = attribute.value else { panic!("{attribute:?}") };
                    number.cast_unsigned()
                })
            };
            let (own, of) = (span.span_context.span_id().to_bytes(), parent.span_context.span_id().to_bytes());
            let duration_ns = number("guestscope.duration_ns");
            let row = waits.iter().find(|wait| own == wait.span_id(of) && wait.duration_ns == duration_ns);
            let row = row.expect("it is one of them");
            let parts = [number("guestscope.blocked_ns"), number("guestscope.throttled_ns"), number("guestscope.runq_ns")];
            prop_assert_eq!(parts, [row.blocked_ns, row.throttled_ns, row.runq_ns()]);
            prop_assert_eq!(parts.iter().sum::<u64>(), row.duration_ns);
            let near = DRIFT_NS + 2 * GAP_NS;
            // Only its start: the end is cut off at the phase's end.
            prop_assert!(ns(span.start_time).abs_diff(row.start_ns) <= near, "{:?} for {:?}", span, row);
        }
    }

    /// Batches are measured by the estimate: it must not be too low, nor far off.
    #[test]
    fn estimates_are_those_of_the_encoder((request, waits) in with_waits(), comm in ".{0,15}") {
        let waits = waits.into_iter().map(|wait| Wait { ran_before_comm: comm.as_str().into(), ..wait });
        for span in trace(request, waits) {
            let estimate = span_bytes(&span);
            let scope = ScopeSpans { spans: vec![span.into()], ..Default::default() };
            let encoded = scope.encoded_len();
            prop_assert!(encoded <= estimate && estimate <= encoded + 16, "{estimate} for {encoded}");
        }
    }
}
