//! Turns a request into the spans of one trace: names, kinds, ids, attributes. Pure.
//!
//! Spans of waits come from [`wait_spans`](super::wait_spans), times from [`timeline`](super::timeline). The
//! exact duration, to which the accounts add up, is the attribute `guestscope.duration_ns`. Zeros are left
//! out. Nothing here samples, shortens or drops.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use guestscope_contract::Source;
use opentelemetry::{
    Array, KeyValue, SpanId, StringValue, TraceFlags, TraceId, Value,
    trace::{SpanContext, SpanKind, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

pub(super) use super::keys::{COUNT_KEYS, HELPER_KEYS, HELPER_WAIT_KEYS, HELPER_WAIT_ON_CPU_KEYS, TIME_KEYS};
use super::{
    LiveVerdict, answered, breakdown, gpus, moves,
    service::Service,
    stops,
    timeline::{self, Interval},
    wait_spans,
    waits::{self, Chosen},
};
use crate::phase::{Ending, HelperWait, Phase, PhaseKind, Request};

/// Attribute key of the enclosing phase's span id, in hexadecimal, where the parent is a span of the
/// program's own.
pub const AROUND_KEY: &str = "guestscope.phase.parent";

/// Jaeger shows an attribute of this name as the span's warnings (jaeger, `internal/jptrace/attributes.go`).
const WARNINGS_KEY: &str = "@jaeger@warnings";

/// A request being turned into spans, a few at a time, so that a request of a hundred thousand phases never
/// needs memory for a hundred thousand spans.
#[derive(Debug)]
pub(super) struct Trace {
    request: Arc<Request>,
    waits: Chosen,
    verdict: LiveVerdict,
    wall_offset_ns: i64,
    /// Times of the phases, then of the waits.
    times: Vec<Interval>,
    /// Span ids by phase id; filled if a phase's parent is a span of the program's own.
    by_id: HashMap<u64, [u8; 8]>,
    built: usize,
}

impl Trace {
    /// Arranges the times. `wall_offset_ns` turns CLOCK_MONOTONIC into the wall clock.
    pub(super) fn new(
        request: Arc<Request>,
        waits: Chosen,
        verdict: LiveVerdict,
        wall_offset_ns: i64,
    ) -> Self {
        let placed = waits.spans.iter().map(|(position, wait)| {
            let phase = &request.phases[*position];
            (*position, waits::inside(wait, phase).unwrap_or_else(|| Interval::of(phase)))
        });
        let times = timeline::arrange(&request.phases, &placed.collect::<Vec<_>>());
        let is_needed =
            request.phases.iter().any(|phase| phase.parent.is_some() && phase.trace.parent_is_remote);
        let spans = request.phases.iter().map(|phase| (phase.id, phase.trace.span_id));
        let by_id = if is_needed { spans.collect() } else { HashMap::new() };
        Self { request, waits, verdict, wall_offset_ns, times, by_id, built: 0 }
    }

    fn wait(&self, at: usize) -> Option<SpanData> {
        let (position, wait) = self.waits.spans.get(at)?;
        let times = self.times[self.request.phases.len() + at];
        Some(wait_spans::span(wait, &self.request.phases[*position], times, self.wall_offset_ns))
    }

    /// Span id of the enclosing phase, where the parent is a span of the program's own.
    fn around(&self, phase: &Phase) -> Option<String> {
        let parent = phase.parent.filter(|_| phase.trace.parent_is_remote)?;
        let span = self.by_id.get(&parent)?;
        Some(format!("{:016x}", u64::from_be_bytes(*span)))
    }

    fn phase(&self, position: usize) -> SpanData {
        let phase = &self.request.phases[position];
        let mut attributes = attributes(phase);
        if position == 0 {
            let Self { verdict: LiveVerdict { cause, tail }, .. } = self;
            attributes.extend(cause.clone().map(|cause| KeyValue::new("guestscope.cause", cause)));
            attributes.extend(tail.clone().map(|tail| KeyValue::new("guestscope.tail", tail)));
        }
        attributes.extend(self.around(phase).map(|id| KeyValue::new(AROUND_KEY, id)));
        attributes.extend(gpus::attributes(&self.waits.gpus, position));
        let interval = self.times[position];
        let notes = self.waits.notes_of(position);
        let mut events =
            notes.map(|notes| wait_spans::events(notes, interval, self.wall_offset_ns)).unwrap_or_default();
        events.events.extend(stops::events(&self.waits.stops, position, interval, self.wall_offset_ns));
        events.events.extend(moves::events(&self.waits.moves, position, interval, self.wall_offset_ns));
        SpanData {
            start_time: wall(interval.start_ns, self.wall_offset_ns),
            end_time: wall(interval.end_ns, self.wall_offset_ns),
            events,
            ..span(phase, attributes)
        }
    }
}

impl Iterator for Trace {
    type Item = SpanData;

    /// The next span. The outermost one comes last: when it has been taken, so have all others.
    fn next(&mut self) -> Option<SpanData> {
        let (at, waits, phases) = (self.built, self.waits.spans.len(), self.request.phases.len());
        self.built += 1;
        match at.checked_sub(waits) {
            None => self.wait(at),
            Some(at) if at + 1 < phases => Some(self.phase(at + 1)),
            Some(at) if at + 1 == phases => Some(self.phase(0)),
            Some(_) => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let all = self.request.phases.len() + self.waits.spans.len();
        let left = all.saturating_sub(self.built);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Trace {}

/// Whether this is the outermost span: its parent is none of ours. When the collector has it, it has the
/// trace.
pub(super) fn is_root(span: &SpanData) -> bool {
    span.parent_span_id == SpanId::INVALID || span.parent_span_is_remote
}

/// The span without its times.
fn span(phase: &Phase, attributes: Vec<KeyValue>) -> SpanData {
    let trace_id = TraceId::from_bytes(phase.trace.trace_id);
    let span_id = SpanId::from_bytes(phase.trace.span_id);
    SpanData {
        span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id: phase.trace.parent_span_id.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: phase.trace.parent_is_remote && phase.parent.is_none(),
        span_kind: if phase.kind == PhaseKind::Request { SpanKind::Server } else { SpanKind::Internal },
        name: Cow::Owned(phase.name.to_string()),
        start_time: SystemTime::UNIX_EPOCH,
        end_time: SystemTime::UNIX_EPOCH,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: answered::status(phase),
        instrumentation_scope: Service::Program.scope(),
    }
}

fn attributes(phase: &Phase) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(16);
    let mut number = |key: &'static str, value: u64| {
        attributes.push(integer(key, value));
    };
    number("guestscope.duration_ns", phase.duration_ns);
    number("thread.id", u64::from(phase.thread.tid));
    // A process answers no request.
    if phase.kind != PhaseKind::Process {
        number("guestscope.request", phase.request);
    }
    let times = TIME_KEYS.into_iter().zip(phase.accounts.0);
    let counts = COUNT_KEYS.into_iter().zip(phase.counts.to_array());
    let suspended =
        [("guestscope.suspended_ns", phase.suspended_ns), ("guestscope.overlay.pause_ns", phase.pause_ns)];
    let helpers = HELPER_KEYS.into_iter().zip(phase.helpers.accounts.0);
    let HelperWait { on_cpu, waiting } = phase.helpers.wait;
    let helper_waits = HELPER_WAIT_KEYS
        .into_iter()
        .zip(on_cpu.iter().zip(&waiting).map(|(on_cpu, waiting)| on_cpu.saturating_add(*waiting)));
    let beside = helpers.chain(helper_waits).chain(HELPER_WAIT_ON_CPU_KEYS.into_iter().zip(on_cpu));
    for (key, value) in
        suspended.into_iter().chain(times).chain(counts).chain(beside).filter(|&(_, value)| value > 0)
    {
        number(key, value);
    }
    attributes.extend(breakdown::line(phase).map(|line| KeyValue::new("guestscope.breakdown", line)));
    if phase.helpers.shared {
        attributes.push(KeyValue::new("guestscope.helper.shared", true));
    }
    if phase.source != Source::Marker {
        attributes.push(KeyValue::new("guestscope.source", phase.source.name()));
    }
    attributes.extend(answered::attributes(phase));
    if phase.ending != Ending::Ended {
        attributes.push(KeyValue::new("guestscope.ending", phase.ending.name()));
    }
    attributes.extend(warnings(phase).map(|warnings| KeyValue::new(WARNINGS_KEY, warnings)));
    attributes
}

/// Warnings about what was not seen of this phase.
fn warnings(phase: &Phase) -> Option<Value> {
    let mut warnings: Vec<StringValue> = Vec::new();
    if phase.edges_lost > 0 {
        let text = format!("{} edges were lost inside: nested phases may be missing", phase.edges_lost);
        warnings.push(text.into());
    }
    if phase.helpers.partial && phase.helpers.accounts.total_ns() > 0 {
        warnings.push("some helper threads are not in the sums".into());
    }
    if phase.ending == Ending::Lost {
        warnings.push("the end was lost: the duration is an upper bound".into());
    }
    (!warnings.is_empty()).then_some(Value::Array(Array::String(warnings)))
}

/// A number as an attribute.
pub(super) fn integer(key: &'static str, value: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(value).unwrap_or(i64::MAX))
}

/// Wall time. A clock set before 1970 yields 1970, because receivers read no earlier time.
pub(super) fn wall(monotonic_ns: u64, wall_offset_ns: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(monotonic_ns.saturating_add_signed(wall_offset_ns))
}
