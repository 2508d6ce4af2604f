//! Turns a wait into a span of the kernel below its phase, or into an event of the phase's span. Pure.
//!
//! The numbers are those of `waits.parquet`, to the nanosecond; times and counts of zero are left out, as in
//! the spans of phases. CPU and thread numbers stand even where they are zero.

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    trace::v1::{
        Span, Status,
        span::{Event, SpanKind},
    },
};

use super::{
    message::{flags, integer, text},
    timeline::{Interval, wall_ns},
    waits::Notes,
};
use crate::phase::{Blame, InFlight, Phase, Wait, WaitedIo};

/// The span of a wait in this phase, at these times.
pub(super) fn span(wait: &Wait, phase: &Phase, times: Interval, wall_offset_ns: i64) -> Span {
    Span {
        trace_id: phase.trace.trace_id.to_vec(),
        span_id: wait.span_id(phase.trace.span_id).to_vec(),
        parent_span_id: phase.trace.span_id.to_vec(),
        flags: flags(false),
        name: wait.mainly().0.name().to_owned(),
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: wall_ns(times.start_ns, wall_offset_ns),
        end_time_unix_nano: wall_ns(times.end_ns, wall_offset_ns),
        attributes: attributes(wait, phase),
        status: Some(Status::default()),
        ..Span::default()
    }
}

fn attributes(wait: &Wait, phase: &Phase) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(16);
    attributes.extend([
        integer("guestscope.duration_ns", wait.duration_ns),
        integer("thread.id", u64::from(wait.thread.tid)),
    ]);
    if wait.thread == phase.thread && !phase.comm.is_empty() {
        attributes.push(text("thread.name", phase.comm.to_string()));
    }
    if wait.blocked_ns > 0 {
        attributes.push(text("guestscope.blocked_account", wait.account.name()));
    }
    let parts = [
        ("guestscope.blocked_ns", wait.blocked_ns),
        ("guestscope.throttled_ns", wait.throttled_ns),
        ("guestscope.runq_ns", wait.runq_ns()),
    ];
    attributes.extend(parts.into_iter().filter(|part| part.1 > 0).map(|(key, ns)| integer(key, ns)));
    let numbers = [
        ("guestscope.left_cpu", Some(wait.left_cpu)),
        ("guestscope.cpu", Some(wait.cpu)),
        // By number: names differ between architectures, and there is no table of them here.
        ("guestscope.syscall", wait.syscall),
        ("guestscope.waker_tid", wait.waker_tid),
        ("guestscope.replaced_by_tid", Some(wait.replaced_by_tid)),
        ("guestscope.ran_before_tid", Some(wait.ran_before_tid)),
        ("guestscope.ran_before_tgid", Some(wait.ran_before_tgid)),
        ("guestscope.thread.ns_id", wait.ns_tid),
    ];
    let numbers = numbers.into_iter().filter_map(|(key, number)| Some(integer(key, u64::from(number?))));
    attributes.extend(numbers);
    attributes.extend(wait.waker_comm.as_ref().map(|comm| text("guestscope.waker_comm", comm.to_string())));
    attributes.extend(wait.stopped_by.map(|by| text("guestscope.stopped_by", by.name())));
    if let Some(Blame { tid, account, stopped_by, ns, depth }) = wait.blame {
        attributes.extend([
            integer("guestscope.blame.tid", u64::from(tid)),
            text("guestscope.blame.account", account.name()),
            integer("guestscope.blame.ns", ns),
            integer("guestscope.blame.depth", u64::from(depth)),
        ]);
        attributes.extend(stopped_by.map(|by| text("guestscope.blame.stopped_by", by.name())));
    }
    attributes.extend(wait.io.as_ref().map(of_io).into_iter().flatten());
    if let Some(cgroup) = &wait.cgroup {
        attributes.push(text("guestscope.cgroup", cgroup.to_string()));
    }
    if !wait.ran_before_comm.is_empty() {
        attributes.push(text("guestscope.ran_before_comm", wait.ran_before_comm.to_string()));
    }
    attributes
}

fn of_io(io: &WaitedIo) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("guestscope.device", io.device.to_string()),
        text("system.device", io.name.to_string()),
        text("disk.io.direction", io.direction()),
    ];
    if let Some(InFlight { reads, writes }) = io.in_flight {
        attributes.push(integer("guestscope.reads_in_flight", u64::from(reads)));
        attributes.push(integer("guestscope.writes_in_flight", u64::from(writes)));
    }
    if io.is_held {
        attributes.push(integer("guestscope.io_held_back", 1));
    }
    attributes
}

/// Events of a phase's span, clamped to its times.
pub(super) fn events(notes: &Notes, times: Interval, wall_offset_ns: i64) -> impl Iterator<Item = Event> {
    notes.events.iter().map(move |note| {
        let start_ns = note.start_ns.clamp(times.start_ns, times.end_ns);
        Event {
            time_unix_nano: wall_ns(start_ns, wall_offset_ns),
            name: "wait".to_owned(),
            attributes: vec![
                text("guestscope.account", note.account.name()),
                integer("guestscope.duration_ns", note.duration_ns),
            ],
            dropped_attributes_count: 0,
        }
    })
}
