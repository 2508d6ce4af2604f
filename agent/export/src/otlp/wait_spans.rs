//! Turns a wait into a span of the kernel below its phase, or into an event of the phase's span. Pure.
//!
//! The numbers are those of `waits.parquet`, to the nanosecond; times and counts of zero are left out, as in
//! the spans of phases. CPU and thread numbers stand even where they are zero.

use std::borrow::Cow;

use opentelemetry::{
    KeyValue, SpanId, TraceFlags, TraceId,
    trace::{Event, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::{
    service::Service,
    spans::{integer, wall},
    timeline::Interval,
    waits::Notes,
};
use crate::phase::{Blame, Phase, Wait};

/// The span of a wait in this phase, at these times.
pub(super) fn span(wait: &Wait, phase: &Phase, times: Interval, wall_offset_ns: i64) -> SpanData {
    let trace_id = TraceId::from_bytes(phase.trace.trace_id);
    let span_id = SpanId::from_bytes(wait.span_id(phase.trace.span_id));
    SpanData {
        span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id: SpanId::from_bytes(phase.trace.span_id),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed(wait.mainly().0.name()),
        start_time: wall(times.start_ns, wall_offset_ns),
        end_time: wall(times.end_ns, wall_offset_ns),
        attributes: attributes(wait),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: Service::Kernel.scope(),
    }
}

fn attributes(wait: &Wait) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(16);
    attributes.extend([
        integer("guestscope.duration_ns", wait.duration_ns),
        integer("thread.id", u64::from(wait.thread.tid)),
    ]);
    if wait.blocked_ns > 0 {
        attributes.push(KeyValue::new("guestscope.blocked_account", wait.account.name()));
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
    if let Some(Blame { tid, account, ns, depth }) = wait.blame {
        attributes.extend([
            integer("guestscope.blame.tid", u64::from(tid)),
            KeyValue::new("guestscope.blame.account", account.name()),
            integer("guestscope.blame.ns", ns),
            integer("guestscope.blame.depth", u64::from(depth)),
        ]);
    }
    if let Some(io) = &wait.io {
        attributes.extend([
            KeyValue::new("guestscope.device", io.device.to_string()),
            KeyValue::new("system.device", io.name.to_string()),
            KeyValue::new("disk.io.direction", io.direction()),
        ]);
    }
    if let Some(cgroup) = &wait.cgroup {
        attributes.push(KeyValue::new("guestscope.cgroup", cgroup.to_string()));
    }
    if !wait.ran_before_comm.is_empty() {
        attributes.push(KeyValue::new("guestscope.ran_before_comm", wait.ran_before_comm.to_string()));
    }
    attributes
}

/// Events of a phase's span, clamped to its times.
pub(super) fn events(notes: &Notes, times: Interval, wall_offset_ns: i64) -> SpanEvents {
    let events = notes.events.iter().map(|note| {
        let start_ns = note.start_ns.clamp(times.start_ns, times.end_ns);
        let attributes = vec![
            KeyValue::new("guestscope.account", note.account.name()),
            integer("guestscope.duration_ns", note.duration_ns),
        ];
        Event::new("wait", wall(start_ns, wall_offset_ns), attributes, 0)
    });
    // The library's type has no other constructor.
    let mut all = SpanEvents::default();
    all.events = events.collect();
    all.dropped_count = u32::try_from(notes.left_out).unwrap_or(u32::MAX);
    all
}
