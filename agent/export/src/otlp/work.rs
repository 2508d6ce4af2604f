//! Which work of a GPU a trace shows: kept until its request comes. Pure.
//!
//! By the rules for waits: the longest pieces that matter become spans of a service of their own, all of them
//! are in sums on the phase that asked for them.

use std::{cmp::Reverse, collections::HashMap};

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    trace::v1::{Span, Status, span::SpanKind},
};

use super::{
    message::{flags, integer, text},
    timeline::{Interval, wall_ns},
    waits::{LEAST_NS, SPANS},
};
use crate::phase::{GpuWork, GpuWorkKind, Phase, Request};

/// Most phases whose work is kept; those that had none for longest are forgotten.
const PHASES: usize = 4096;

/// Work of phases whose requests have not come.
#[derive(Debug, Default)]
pub(super) struct Works {
    phases: HashMap<u64, OfPhase>,
    /// Pieces of work so far.
    came: u64,
}

/// Work that one phase asked for.
#[derive(Debug, Default)]
struct OfPhase {
    sums: Sums,
    /// The longest pieces.
    longest: Vec<GpuWork>,
    /// When the last one came, by [`Works::came`].
    last: u64,
}

/// Sums over all work that a phase asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    kernels: u64,
    kernels_ns: u64,
    copies: u64,
    copies_ns: u64,
    copied_bytes: u64,
}

/// What the trace of a request shows of its work.
#[derive(Debug, Default)]
pub(super) struct ChosenWork {
    /// Pieces as spans, each with the position of its parent in the request.
    pub(super) spans: Vec<(usize, GpuWork)>,
    /// Sums by position of the phase that asked.
    sums: Vec<(usize, Sums)>,
}

impl Sums {
    fn add(&mut self, work: &GpuWork) {
        let (count, ns) = match work.kind {
            GpuWorkKind::Kernel | GpuWorkKind::Graph => (&mut self.kernels, &mut self.kernels_ns),
            GpuWorkKind::Copy | GpuWorkKind::Set => (&mut self.copies, &mut self.copies_ns),
            GpuWorkKind::Window => return,
        };
        *count += 1;
        *ns = ns.saturating_add(work.duration_ns());
        self.copied_bytes = self.copied_bytes.saturating_add(work.bytes);
    }
}

impl Works {
    /// Keeps a piece of work that a phase asked for.
    pub(super) fn add(&mut self, work: GpuWork) {
        let Some(phase) = work.phase else { return };
        self.came += 1;
        let OfPhase { sums, longest, last } = self.phases.entry(phase).or_default();
        *last = self.came;
        sums.add(&work);
        longest.push(work);
        if longest.len() > SPANS {
            longest.sort_by_key(|work| (Reverse(work.duration_ns()), work.start_ns));
            longest.truncate(SPANS);
        }
        if self.phases.len() > PHASES {
            let mut all: Vec<u64> = self.phases.values().map(|phase| phase.last).collect();
            let middle = all.len() / 2;
            let median = *all.select_nth_unstable(middle).1;
            self.phases.retain(|_, phase| phase.last >= median);
        }
    }

    /// Forgets all of it.
    pub(super) fn forget(&mut self) {
        self.phases.clear();
    }

    /// Takes out the work of a request.
    pub(super) fn take(&mut self, request: &Request) -> ChosenWork {
        let mut chosen = ChosenWork::default();
        if self.phases.is_empty() {
            return chosen;
        }
        for (position, phase) in request.phases.iter().enumerate() {
            let Some(OfPhase { sums, longest, .. }) = self.phases.remove(&phase.id) else { continue };
            chosen.sums.push((position, sums));
            let least_ns = LEAST_NS.max(phase.duration_ns.div_ceil(100));
            let matter = longest.into_iter().filter(|work| work.duration_ns() >= least_ns);
            chosen.spans.extend(matter.filter_map(|work| {
                // A GPU runs behind its calls: the work of one phase may run during the next one.
                let parent =
                    if inside(&work, phase).is_some_and(|part| part == whole(&work)) { position } else { 0 };
                inside(&work, &request.phases[parent]).map(|_| (parent, work))
            }));
        }
        chosen.spans.sort_by_key(|(position, work)| (*position, work.start_ns));
        // Spans are told apart by their start and what they are.
        chosen.spans.dedup_by_key(|(_, work)| (work.start_ns, work.device, work.stream));
        chosen
    }
}

impl ChosenWork {
    /// Memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.spans.iter().map(|(_, work)| work.name.stored().len()).sum::<usize>();
        size_of_val(&self.spans[..]) + size_of_val(&self.sums[..]) + names
    }

    /// The sums of the phase at this position, as attributes.
    pub(super) fn attributes(&self, position: usize) -> Vec<KeyValue> {
        let Some((_, sums)) = self.sums.iter().find(|(of, _)| *of == position) else { return Vec::new() };
        let all = [
            ("guestscope.gpu.work.kernels", sums.kernels),
            ("guestscope.gpu.work.kernels_ns", sums.kernels_ns),
            ("guestscope.gpu.work.copies", sums.copies),
            ("guestscope.gpu.work.copies_ns", sums.copies_ns),
            ("guestscope.gpu.work.copied_bytes", sums.copied_bytes),
        ];
        all.into_iter().filter(|(_, value)| *value > 0).map(|(key, value)| integer(key, value)).collect()
    }
}

fn whole(work: &GpuWork) -> Interval {
    Interval { start_ns: work.start_ns, end_ns: work.end_ns }
}

/// The part of a piece of work inside a phase.
pub(super) fn inside(work: &GpuWork, phase: &Phase) -> Option<Interval> {
    let (whole, phase) = (whole(work), Interval::of(phase));
    let start_ns = whole.start_ns.max(phase.start_ns);
    let end_ns = whole.end_ns.min(phase.end_ns);
    (start_ns < end_ns).then_some(Interval { start_ns, end_ns })
}

/// The span of a piece of work below this phase, at these times.
pub(super) fn span(work: &GpuWork, phase: &Phase, times: Interval, wall_offset_ns: i64) -> Span {
    let name = if work.name.is_empty() { work.kind.name().into() } else { work.name.clone() };
    let mut attributes = vec![
        integer("guestscope.duration_ns", work.duration_ns()),
        text("guestscope.gpu.kind", work.kind.name()),
        integer("guestscope.gpu.device", work.device.into()),
        integer("guestscope.gpu.stream", work.stream.into()),
        integer("thread.id", work.thread.into()),
    ];
    attributes.extend((work.bytes > 0).then(|| integer("guestscope.gpu.bytes", work.bytes)));
    attributes.extend(work.delay_ns().map(|ns| integer("guestscope.gpu.queue_delay_ns", ns)));
    Span {
        trace_id: phase.trace.trace_id.to_vec(),
        span_id: work.span_id(phase.trace.span_id).to_vec(),
        parent_span_id: phase.trace.span_id.to_vec(),
        flags: flags(false),
        name: name.to_string(),
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: wall_ns(times.start_ns, wall_offset_ns),
        end_time_unix_nano: wall_ns(times.end_ns, wall_offset_ns),
        attributes,
        status: Some(Status::default()),
        ..Span::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guestscope_model::analyze::samples;

    fn work(phase: u64, (start_ns, end_ns): (u64, u64)) -> GpuWork {
        GpuWork { phase: Some(phase), start_ns, end_ns, called_ns: 1, returned_ns: 1, ..GpuWork::default() }
    }

    #[test]
    fn the_longest_work_that_matters_becomes_spans() {
        let request = samples::inference(1).remove(0);
        let (root, last) = (&request.phases[0], request.phases.last().expect("there are phases"));
        let (start_ns, end_ns) = (last.start_ns, last.start_ns + last.duration_ns);
        let mut works = Works::default();
        for length in 0..2 * SPANS as u64 {
            works.add(work(last.id, (start_ns, start_ns + LEAST_NS * length)));
        }
        // Behind the end of its phase, and of its request.
        works.add(work(last.id, (start_ns, end_ns + 1)));
        works.add(work(root.id, (root.start_ns + root.duration_ns, u64::MAX)));
        works.add(work(0, (start_ns, end_ns)));
        let chosen = works.take(&request);
        assert!(chosen.spans.len() <= SPANS && !chosen.spans.is_empty(), "{chosen:?}");
        for (position, work) in &chosen.spans {
            let inside = inside(work, &request.phases[*position]);
            assert!(inside.is_some() && work.duration_ns() >= LEAST_NS, "{position} {work:?}");
        }
        let sums = chosen.attributes(request.phases.len() - 1);
        assert_eq!(sums[0], integer("guestscope.gpu.work.kernels", 2 * SPANS as u64 + 1));
        assert!(works.take(&request).spans.is_empty());
    }

    #[test]
    fn any_number_of_phases_takes_little_memory() {
        let mut works = Works::default();
        (1..3 * PHASES as u64).for_each(|phase| works.add(work(phase, (1, 2))));
        assert!(works.phases.len() <= PHASES && works.phases.contains_key(&(3 * PHASES as u64 - 1)));
    }
}
