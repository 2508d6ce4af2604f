//! Long waits in a real Jaeger: below their phases, under a service of their own, with the numbers in the
//! folder.
//!
//! Every row of `waits.parquet` that lies in a phase is a span, an event of the phase's span, or counted
//! there.

use std::collections::{BTreeMap, HashSet};

use guestscope::phase::{Phase, Wait, WaitedIo};
use serde_json::Value;

use crate::{
    folder::Seen,
    ground::{Ground, eventually, subject},
    jaeger::{Jaeger, Span, is_kernel, service},
    main_job::hex,
};

const REQUESTS: usize = 3;

#[test]
fn what_kept_a_phase_from_running_is_a_span_below_it() {
    let test = "waits::what_kept_a_phase_from_running_is_a_span_below_it";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let service = service("waits");
    let run = ground.run().words(&["--name", &service, "--otlp", &jaeger.grpc]).program(subject());
    let done = run.words(&["waits", "3"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!((seen.requests.len(), done.losses()), (REQUESTS, vec![]));

    // Jaeger may list a service before it has all spans; wait for as many as were sent.
    let summary = done.summary();
    assert_eq!(summary["export"]["traces_sent"], REQUESTS, "{summary}");
    let sent = summary["export"]["spans_sent"].as_u64().expect("a number") as usize;
    let traces = eventually("all spans", || {
        let traces = jaeger.look(&service);
        (traces.values().map(Vec::len).sum::<usize>() >= sent).then_some(traces)
    });
    let all: Vec<&Span> = traces.values().flatten().collect();
    let ids: HashSet<(&str, &str)> = all.iter().map(|span| (&*span.trace, &*span.id)).collect();
    assert_eq!((all.len(), ids.len()), (sent, sent), "none was sent twice");

    let waits = seen.waits();
    for request in &seen.requests {
        let spans = &traces[&hex(&request.root().trace.trace_id)];
        request.phases.iter().for_each(|phase| check_phase(phase, &waits, spans, &service));
    }
    check_provoked(&seen, &waits, &traces);
    check_search(&jaeger, &seen);
}

/// The rows of a phase are its wait spans, its events and its count.
fn check_phase(phase: &Phase, waits: &[Wait], spans: &[Span], service: &str) {
    let id = hex(&phase.trace.span_id);
    let own = spans.iter().find(|span| span.id == id).unwrap_or_else(|| panic!("no span {id}"));
    assert_eq!(own.attributes.get("thread.name").and_then(Value::as_str), Some(phase.comm.stored()));
    let rows: Vec<&Wait> = waits.iter().filter(|wait| wait.phase == Some(phase.id)).collect();
    let below = spans.iter().filter(|span| span.parent.as_ref() == Some(&id) && is_kernel(span));
    let below: Vec<&Span> = below.collect();
    for span in &below {
        let row = rows.iter().find(|row| hex(&row.span_id(phase.trace.span_id)) == span.id);
        check_wait(span, row.unwrap_or_else(|| panic!("no row: {span:#?}")), own, service);
    }
    let least_ns = 100_000.max(phase.duration_ns.div_ceil(100));
    let matter = rows.iter().filter(|row| row.duration_ns >= least_ns).count();
    let shown = below.len() + own.events.len();
    // A wait at the end of its phase may lie outside, and is counted.
    let left_out = rows.len() - shown;
    assert_eq!(own.events_left_out, left_out as u64, "{own:#?}");
    assert!(below.len() == matter.min(8) || left_out > 0 && below.len() < 8, "{below:#?} of {rows:#?}");
    for event in &own.events {
        let is_it = |row: &&&Wait| event["guestscope.duration_ns"].as_u64() == Some(row.duration_ns);
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no row: {event:?}"));
        assert_eq!(event["guestscope.account"], row.mainly().0.name(), "{row:?}");
    }
}

/// Its numbers are those of the row, and its times lie inside the phase's.
fn check_wait(span: &Span, row: &Wait, parent: &Span, service: &str) {
    assert_eq!(span.name, row.mainly().0.name(), "{span:#?}");
    assert_eq!(span.resource["service.namespace"], service);
    assert_eq!(span.resource["guestscope.run.id"], parent.resource["guestscope.run.id"]);
    let numbers = [
        ("guestscope.duration_ns", Some(row.duration_ns)),
        ("guestscope.blocked_ns", Some(row.blocked_ns).filter(|&ns| ns > 0)),
        ("guestscope.throttled_ns", Some(row.throttled_ns).filter(|&ns| ns > 0)),
        ("guestscope.runq_ns", Some(row.runq_ns()).filter(|&ns| ns > 0)),
        ("guestscope.syscall", row.syscall.map(u64::from)),
        ("guestscope.left_cpu", Some(u64::from(row.left_cpu))),
        ("guestscope.cpu", Some(u64::from(row.cpu))),
        ("guestscope.waker_tid", row.waker_tid.map(u64::from)),
        ("guestscope.replaced_by_tid", Some(u64::from(row.replaced_by_tid))),
        ("guestscope.ran_before_tid", Some(u64::from(row.ran_before_tid))),
        ("guestscope.ran_before_tgid", Some(u64::from(row.ran_before_tgid))),
        ("thread.id", Some(u64::from(row.thread.tid))),
        ("guestscope.thread.ns_id", row.ns_tid.map(u64::from)),
    ];
    for (key, expected) in numbers {
        assert_eq!(span.number(key), expected, "{key}: {span:#?}");
    }
    let words = [
        ("guestscope.blocked_account", Some(row.account.name()).filter(|_| row.blocked_ns > 0)),
        ("guestscope.device", row.io.as_ref().map(|io| io.device.stored())),
        ("system.device", row.io.as_ref().map(|io| io.name.stored())),
        ("guestscope.cgroup", row.cgroup.as_ref().map(guestscope::untrusted::Untrusted::stored)),
        ("disk.io.direction", row.io.as_ref().map(WaitedIo::direction)),
        ("guestscope.ran_before_comm", Some(row.ran_before_comm.stored()).filter(|name| !name.is_empty())),
    ];
    for (key, expected) in words {
        assert_eq!(span.attributes.get(key).and_then(Value::as_str), expected, "{key}: {span:#?}");
    }
    assert!(parent.start_ns <= span.start_ns && span.end_ns <= parent.end_ns, "{span:#?} in {parent:#?}");
    // Waits are separated by 1 us, so their times may be off by a few of these.
    assert!((span.end_ns - span.start_ns).abs_diff(row.duration_ns) <= 10_000, "{span:#?} of {row:?}");
}

/// The program's deliberate waits are below the phases in which it made them.
fn check_provoked(seen: &Seen, waits: &[Wait], traces: &BTreeMap<String, Vec<Span>>) {
    for request in &seen.requests {
        let spans = &traces[&hex(&request.root().trace.trace_id)];
        for (name, operation) in [("asleep", "sleep"), ("locked_out", "lock"), ("restless", "sleep")] {
            let phase = crate::folder::phase(request, name);
            let rows = waits.iter().filter(|wait| wait.phase == Some(phase.id));
            // A switch that reached no hook left no row; with one, the cause of the wait is unknown.
            if rows.clone().any(|row| row.mainly().0.name() == operation) {
                let id = Some(hex(&phase.trace.span_id));
                let found = spans.iter().any(|span| span.parent == id && span.name == operation);
                assert!(found, "{operation} in {name}: {spans:#?}");
            } else {
                assert!(phase.counts.switch_missed > 0, "{name}: {phase:#?}");
            }
        }
    }
}

/// Service `kernel`, operation `sleep`: what people choose in the search form.
fn check_search(jaeger: &Jaeger, seen: &Seen) {
    let run = &seen.manifest.run_id;
    let found = jaeger.operation("kernel", "sleep", "guestscope.run.id", run);
    let mut all: Vec<String> =
        seen.requests.iter().map(|request| hex(&request.root().trace.trace_id)).collect();
    all.sort();
    assert_eq!(found, all);
    assert_eq!(jaeger.operation("kernel", "gpu", "guestscope.run.id", run), Vec::<String>::new());
}
