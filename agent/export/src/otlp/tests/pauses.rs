//! Events of the whole guest, on the spans of the phases that were open.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;

use super::{OFFSET_NS, found, phase, shown};
use crate::{
    otlp::{LiveVerdict, spans::Trace, waits::Keeper},
    phase::{Pause, Phase, Request, Restored, RestoredBy},
};

const MS: u64 = 1_000_000;

/// Name, start, length and doubt of each event, ms; the start relative to the request's.
fn events(span: &Span, from_ns: u64) -> Vec<(String, f64, f64, f64)> {
    let ms = |ns: u64| ns as f64 / MS as f64;
    let each = span.events.iter().map(|event| {
        let number =
            |key| found(&event.attributes, key).and_then(|text| text.parse().ok()).expect("a number");
        let at_ns = event.time_unix_nano.checked_add_signed(-OFFSET_NS).expect("after the start") - from_ns;
        (
            event.name.clone(),
            ms(at_ns),
            ms(number("guestscope.duration_ns")),
            ms(number("guestscope.doubt_ns")),
        )
    });
    each.collect()
}

#[test]
fn a_pause_is_an_event_of_every_phase_that_it_lies_in() {
    let whole = Phase { duration_ns: 100 * MS, pause_ns: 60 * MS, ..phase(1, 1, None, "infer") };
    let from_ns = whole.start_ns;
    let inner = |id, at: u64, duration: u64, paused: u64| Phase {
        start_ns: from_ns + at * MS,
        duration_ns: duration * MS,
        pause_ns: paused * MS,
        ..phase(1, id, Some(1), "part")
    };
    let request = Request { phases: vec![whole, inner(2, 0, 40, 20), inner(3, 40, 60, 40)] };
    let mut keeper = Keeper::default();
    // One long before, which matters to no span, and two in this request.
    for (at, duration) in [(-5_000, 20), (20, 50), (80, 10)] {
        let start_ns = from_ns.checked_add_signed(at * MS as i64).expect("after the start");
        keeper.stopped(Pause { start_ns, duration_ns: duration * MS, doubt_ns: MS });
    }
    let chosen = keeper.take(&request);
    let trace = Trace::new(Arc::new(request), chosen, LiveVerdict::default(), OFFSET_NS);
    let spans: Vec<Span> = trace.map(|(_, span)| span).collect();
    let of = |name: &str, start: u64| {
        let at_ns = (from_ns + start * MS).saturating_add_signed(OFFSET_NS);
        let is_it =
            |span: &&Span| span.name == name && (at_ns..at_ns + MS).contains(&span.start_time_unix_nano);
        events(spans.iter().find(is_it).expect("it has a span"), from_ns)
    };
    let pause = |at, duration| ("pause".to_owned(), at, duration, 1.0);
    assert_eq!(of("infer", 0), [pause(20.0, 50.0), pause(80.0, 10.0)]);
    assert_eq!(of("part", 0), [pause(20.0, 20.0)]);
    // A span begins 1 us after its sibling's end, and its events with it.
    let second = of("part", 40);
    assert_eq!(second[1], pause(80.0, 10.0));
    let cut = pause(second[0].1, 30.0);
    assert!((second[0].1 - 40.0).abs() < 0.01 && second[0] == cut, "{second:?}");
    let root = spans.iter().find(|span| span.name == "infer").expect("it has a span");
    assert_eq!(found(&root.attributes, "guestscope.overlay.pause_ns").as_deref(), Some("60000000"));
}

#[test]
fn that_the_guest_was_restored_is_an_event_of_every_phase_that_was_open() {
    let whole = Phase { duration_ns: 100 * MS, ..phase(1, 1, None, "infer") };
    let from_ns = whole.start_ns;
    let inner = |id, at: u64, name| Phase {
        start_ns: from_ns + at * MS,
        duration_ns: 40 * MS,
        ..phase(1, id, Some(1), name)
    };
    let request = Request { phases: vec![whole, inner(2, 0, "first"), inner(3, 50, "second")] };
    let mut keeper = Keeper::default();
    // Before it, exactly at its start, in the second phase, between the phases, and after the end.
    let times = [
        (from_ns - 1, RestoredBy::Vmgenid),
        (from_ns, RestoredBy::Vmgenid),
        (from_ns + 45 * MS, RestoredBy::Vmclock),
        (from_ns + 60 * MS, RestoredBy::Vmclock),
        (from_ns + 100 * MS, RestoredBy::Vmgenid),
    ];
    for (noticed_ns, source) in times {
        keeper.restored(Restored { noticed_ns, source });
    }
    let chosen = keeper.take(&request);
    let spans = Trace::new(Arc::new(request), chosen, LiveVerdict::default(), OFFSET_NS);
    let seen: Vec<String> = spans
        .map(|(_, span)| {
            let events = span.events.iter().map(|event| {
                let at_ns = event.time_unix_nano.checked_add_signed(-OFFSET_NS).expect("it fits") - from_ns;
                format!("{} {} {}", event.name, shown(&event.attributes[0]), at_ns / MS)
            });
            format!("{}: {}", span.name, events.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let (genid, clock) = ("restored guestscope.source=vmgenid", "restored guestscope.source=vmclock");
    let expected = [
        format!("first: {genid} 0"),
        format!("second: {clock} 60"),
        format!("infer: {genid} 0, {clock} 45, {clock} 60"),
    ];
    assert_eq!(seen, expected);
}
