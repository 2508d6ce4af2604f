//! Spans of the crate `tracing`: what a program with the layer fires, on one thread and over several.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod breakpoint;
mod wire;

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use breakpoint::edges;
use tracing::{Instrument as _, info_span, subscriber::with_default};
use tracing_subscriber::{Registry, layer::SubscriberExt as _, registry, registry::SpanRef};
use wire::{Edge, script};

/// The edges of what is done under a subscriber with the layer.
fn traced(what: impl FnOnce() + Send) -> Vec<Edge> {
    let subscriber = registry().with(guestscope_marker::tracing::layer());
    edges(|| with_default(subscriber, what))
}

fn lines(edges: &[Edge]) -> Vec<String> {
    assert!(edges.iter().all(|edge| edge.operation() != 1 || edge.arguments[3] >> 32 == 2), "all of otel");
    script(edges)
}

/// Suspends the caller so many times.
struct Pauses(u32);

impl Future for Pauses {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

#[test]
fn nested_spans_are_nested_phases() {
    let edges = traced(|| {
        let outer = info_span!("handle", request = 7_u64, unrelated = "never read").entered();
        info_span!("decode").in_scope(|| {});
        info_span!("answer").in_scope(|| {});
        tracing::info!("an event is no phase");
        drop(outer);
        drop(info_span!("never entered"));
    });
    let expected = [
        "begin 1.0 handle 7",
        "begin 1.1 decode 0",
        "leave 1.1",
        "end 1.1",
        "begin 1.2 answer 0",
        "leave 1.2",
        "end 1.2",
        "leave 1.0",
        "end 1.0",
    ];
    assert_eq!(lines(&edges), expected);
}

#[test]
fn a_name_of_the_opentelemetry_convention_is_the_phases() {
    let edges = traced(|| info_span!("request", otel.name = "GET /items/{id}").in_scope(|| {}));
    assert_eq!(lines(&edges)[0], "begin 1.0 GET /items/{id} 0");
    let edges = traced(|| {
        let span = info_span!("request", otel.name = tracing::field::Empty).entered();
        span.record("otel.name", "GET /late");
    });
    let renamed = edges.iter().find(|edge| edge.operation() == 9).expect("it was renamed");
    assert_eq!((renamed.name.as_str(), renamed.token()), ("GET /late", edges[0].token()));
}

#[test]
fn spans_of_futures_are_left_while_they_wait() {
    let edges = traced(|| {
        let mut context = Context::from_waker(Waker::noop());
        let mut one = pin!(Pauses(1).instrument(info_span!("one")));
        let mut two = pin!(Pauses(1).instrument(info_span!("two", request_id = 3)));
        for _ in 0..2 {
            let _ = (one.as_mut().poll(&mut context), two.as_mut().poll(&mut context));
        }
    });
    let begun = lines(&edges);
    let expected = ["begin 1.0 one 0", "leave 1.0", "begin 2.0 two 3", "leave 2.0", "enter 1.0", "leave 1.0"];
    assert_eq!(begun[..6], expected);
    assert_eq!(begun.iter().filter(|line| line.starts_with("end")).count(), 2, "{begun:?}");
}

#[test]
fn a_span_that_is_entered_again_or_by_two_threads_is_on_one() {
    let edges = traced(|| {
        let span = info_span!("shared");
        let outer = span.enter();
        span.in_scope(|| {});
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        std::thread::scope(|scope| {
            let other = || tracing::dispatcher::with_default(&dispatch, || span.in_scope(|| {}));
            scope.spawn(other).join().expect("does not panic");
        });
        drop(outer);
    });
    assert_eq!(lines(&edges), ["begin 1.0 shared 0", "leave 1.0", "end 1.0"]);
}

#[test]
fn a_root_joins_the_trace_of_the_programs_own_span() {
    let layer =
        guestscope_marker::tracing::layer().with_ids(|_: &SpanRef<'_, Registry>| Some(([1; 16], [2; 8])));
    let edges = edges(|| {
        with_default(registry().with(layer), || {
            info_span!("root").in_scope(|| info_span!("child").in_scope(|| {}));
        });
    });
    let expected = "context 1.0 101010101010101 101010101010101 202020202020202";
    let lines = lines(&edges);
    assert_eq!(lines.iter().filter(|line| line.starts_with("context")).collect::<Vec<_>>(), [expected]);
}
