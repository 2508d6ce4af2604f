//! Turns a request into the spans of one trace: names, kinds, ids, attributes. Pure.
//!
//! Spans of waits come from [`wait_spans`](super::wait_spans), times from [`timeline`](super::timeline). The
//! exact duration, to which the accounts add up, is the attribute `guestscope.duration_ns`. Zeros are left
//! out. Nothing here samples, shortens or drops.

use std::{collections::HashMap, sync::Arc};

use guestscope_contract::Source;
use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, SpanFlags, span::SpanKind},
};

use super::{
    LiveVerdict, answered, breakdown, gpus,
    message::{attribute, flags, integer, text, texts},
    pauses, restored,
    service::Service,
    timeline::{self, Interval, wall_ns},
    wait_spans,
    waits::{self, Chosen},
    work,
};
use crate::phase::{Ending, Phase, PhaseKind, Request};

/// Attribute key of the enclosing phase's span id, in hexadecimal, where the parent is a span of the
/// program's own.
pub const AROUND_KEY: &str = "guestscope.phase.parent";

/// Attribute key of what the outermost span of a request is.
pub const KIND_KEY: &str = "guestscope.kind";

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
    /// Times of the phases, then of the waits, then of work of GPUs.
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
        let worked = waits.work.spans.iter().map(|(position, work)| {
            let phase = &request.phases[*position];
            (*position, work::inside(work, phase).unwrap_or_else(|| Interval::of(phase)))
        });
        let times = timeline::arrange(&request.phases, &placed.chain(worked).collect::<Vec<_>>());
        let is_needed =
            request.phases.iter().any(|phase| phase.parent.is_some() && phase.trace.parent_is_remote);
        let spans = request.phases.iter().map(|phase| (phase.id, phase.trace.span_id));
        let by_id = if is_needed { spans.collect() } else { HashMap::new() };
        Self { request, waits, verdict, wall_offset_ns, times, by_id, built: 0 }
    }

    fn wait(&self, at: usize) -> Option<Span> {
        let (position, wait) = self.waits.spans.get(at)?;
        let times = self.times[self.request.phases.len() + at];
        Some(wait_spans::span(wait, &self.request.phases[*position], times, self.wall_offset_ns))
    }

    fn work(&self, at: usize) -> Option<Span> {
        let (position, work) = self.waits.work.spans.get(at)?;
        let times = self.times[self.request.phases.len() + self.waits.spans.len() + at];
        Some(work::span(work, &self.request.phases[*position], times, self.wall_offset_ns))
    }

    /// Span id of the enclosing phase, where the parent is a span of the program's own.
    fn around(&self, phase: &Phase) -> Option<String> {
        let parent = phase.parent.filter(|_| phase.trace.parent_is_remote)?;
        let span = self.by_id.get(&parent)?;
        Some(format!("{:016x}", u64::from_be_bytes(*span)))
    }

    fn phase(&self, position: usize) -> Span {
        let phase = &self.request.phases[position];
        let mut attributes = attributes(phase);
        if position == 0 {
            let Self { verdict: LiveVerdict { cause, tail }, .. } = self;
            attributes.extend(cause.clone().map(|cause| text("guestscope.cause", cause)));
            attributes.extend(tail.clone().map(|tail| text("guestscope.tail", tail)));
        }
        attributes.extend(self.around(phase).map(|id| text(AROUND_KEY, id)));
        attributes.extend(gpus::attributes(&self.waits.gpus, position));
        attributes.extend(self.waits.work.attributes(position));
        let interval = self.times[position];
        let mut span = Span {
            start_time_unix_nano: wall_ns(interval.start_ns, self.wall_offset_ns),
            end_time_unix_nano: wall_ns(interval.end_ns, self.wall_offset_ns),
            ..span(phase, attributes)
        };
        if let Some(notes) = self.waits.notes_of(position) {
            span.events.extend(wait_spans::events(notes, interval, self.wall_offset_ns));
            span.dropped_events_count = u32::try_from(notes.left_out).unwrap_or(u32::MAX);
        }
        span.events.extend(pauses::events(&self.waits.pauses, position, interval, self.wall_offset_ns));
        span.events.extend(restored::events(&self.waits.restores, position, interval, self.wall_offset_ns));
        span
    }
}

impl Iterator for Trace {
    type Item = (Service, Span);

    /// The next span and whose it is. The outermost one comes last: when it has been taken, so have all
    /// others.
    fn next(&mut self) -> Option<Self::Item> {
        let (at, waits, phases) = (self.built, self.waits.spans.len(), self.request.phases.len());
        self.built += 1;
        match at.checked_sub(self.waits.spans()) {
            None if at < waits => Some((Service::Kernel, self.wait(at)?)),
            None => Some((Service::Gpu, self.work(at - waits)?)),
            Some(at) if at + 1 < phases => Some((Service::Program, self.phase(at + 1))),
            Some(at) if at + 1 == phases => Some((Service::Program, self.phase(0))),
            Some(_) => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let all = self.request.phases.len() + self.waits.spans();
        let left = all.saturating_sub(self.built);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Trace {}

/// Whether this is the outermost span: its parent is none of ours. When the collector has it, it has the
/// trace.
pub(super) fn is_root(span: &Span) -> bool {
    span.parent_span_id.is_empty() || span.flags & SpanFlags::ContextIsRemoteMask as u32 != 0
}

/// The span without its times.
fn span(phase: &Phase, attributes: Vec<KeyValue>) -> Span {
    // A server is what answered somebody over a network: a connection's request, or one with a status.
    let is_served = phase.source == Source::Socket || phase.status.is_some();
    let kind =
        if phase.kind == PhaseKind::Request && is_served { SpanKind::Server } else { SpanKind::Internal };
    Span {
        trace_id: phase.trace.trace_id.to_vec(),
        span_id: phase.trace.span_id.to_vec(),
        // Zeros mean that there is none.
        parent_span_id: phase
            .trace
            .parent_span_id
            .filter(|id| *id != [0; 8])
            .map_or_else(Vec::new, Vec::from),
        flags: flags(phase.trace.parent_is_remote && phase.parent.is_none()),
        name: phase.name.to_string(),
        kind: kind as i32,
        attributes,
        status: Some(answered::status(phase)),
        ..Span::default()
    }
}

fn attributes(phase: &Phase) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(16);
    attributes.extend([
        integer("guestscope.duration_ns", phase.duration_ns),
        integer("thread.id", u64::from(phase.thread.tid)),
    ]);
    if !phase.comm.is_empty() {
        attributes.push(text("thread.name", phase.comm.to_string()));
    }
    let mut number = |key: &str, value: u64| attributes.push(integer(key, value));
    // A process answers no request.
    if phase.kind != PhaseKind::Process {
        number("guestscope.request", phase.request);
    }
    for (quantity, value) in phase.quantities() {
        number(quantity.row().attribute, value);
    }
    // The outermost span of a request: its kind of span says only whether a network asked for it.
    if phase.kind == PhaseKind::Request {
        attributes.push(text(KIND_KEY, phase.kind.name()));
    }
    attributes.extend(breakdown::line(phase).map(|line| text("guestscope.breakdown", line)));
    if phase.helpers.shared {
        attributes.push(attribute("guestscope.helper.shared", Value::BoolValue(true)));
    }
    if phase.source != Source::Marker {
        attributes.push(text("guestscope.source", phase.source.name()));
    }
    attributes.extend(answered::attributes(phase));
    if phase.ending != Ending::Ended {
        attributes.push(text("guestscope.ending", phase.ending.name()));
    }
    let warnings = warnings(phase);
    if !warnings.is_empty() {
        attributes.push(texts(WARNINGS_KEY, warnings));
    }
    attributes
}

/// Warnings about what was not seen of this phase.
fn warnings(phase: &Phase) -> Vec<String> {
    let mut warnings = Vec::new();
    if phase.edges_lost > 0 {
        warnings.push(format!("{} edges were lost inside: nested phases may be missing", phase.edges_lost));
    }
    if phase.helpers.partial && phase.helpers.accounts.total_ns() > 0 {
        warnings.push("some helper threads are not in the sums".to_owned());
    }
    if phase.ending == Ending::Lost {
        warnings.push("the end was lost: the duration is an upper bound".to_owned());
    }
    warnings
}
