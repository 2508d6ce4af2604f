//! When each phase of a request was the innermost one on its thread.

use crate::phase::{PhaseKind, Request};

use super::super::tree::{Located, PlaceId};

/// When each phase was the innermost one, by the starts and ends of its nested phases.
pub(super) fn own_spans(request: &Request, located: &Located) -> Vec<(PlaceId, u64, u64)> {
    let mut inner: Vec<Vec<(u64, u64)>> = vec![Vec::new(); request.phases.len()];
    let span =
        |phase: &crate::phase::Phase| (phase.start_ns, phase.start_ns.saturating_add(phase.duration_ns));
    let is_on_a_thread = |phase: &crate::phase::Phase| phase.kind != PhaseKind::Queue;
    for (phase, &parent) in request.phases.iter().zip(&located.parents).skip(1) {
        if is_on_a_thread(phase) {
            inner[parent].push(span(phase));
        }
    }
    let mut spans = Vec::new();
    for ((phase, place), mut inner) in request.phases.iter().zip(&located.places).zip(inner) {
        if !is_on_a_thread(phase) {
            continue;
        }
        let (mut at_ns, end_ns) = span(phase);
        inner.sort_unstable();
        for (begin_ns, inner_end_ns) in inner {
            if begin_ns > at_ns {
                spans.push((*place, at_ns, begin_ns.min(end_ns)));
            }
            at_ns = at_ns.max(inner_end_ns);
        }
        if end_ns > at_ns {
            spans.push((*place, at_ns, end_ns));
        }
    }
    spans
}
