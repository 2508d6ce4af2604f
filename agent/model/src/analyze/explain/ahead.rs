//! Requests that a queued request waited for: in flight between its arrival and its start; and their causes.
//!
//! Yields [`Ahead`]. The run is read once more for it, because those requests ended before they were known to
//! matter; only if a queue is part of an excess.

use std::cmp::Reverse;

use crate::phase::Request;

use super::{
    super::{cause::Cause, summary::excesses, tree::latency_ns, typical::RequestKind},
    case::Ahead,
};
use super::{Case, reading::split_of};

/// Requests ahead that are named.
const MOST: usize = 3;
/// A request ahead whose excess is below the typical latency divided by this is not the reason for waiting.
const HARDLY_SLOWER: i64 = 10;

/// The requests that each case queued behind.
pub(super) fn add(cases: &mut [&mut Case], kind: &RequestKind, request: &Request) {
    let root = request.root();
    let end_ns = root.start_ns.saturating_add(root.duration_ns);
    for case in cases.iter_mut().filter(|case| case.id != root.id) {
        let from_ns = root.start_ns.max(case.begin_ns());
        let ns = end_ns.min(case.start_ns).saturating_sub(from_ns);
        if ns == 0 {
            continue;
        }
        let Some(queue) = case.queue() else { continue };
        let is_among = queue.len() < MOST || queue.last().is_some_and(|last| last.ns < ns);
        if !is_among {
            continue;
        }
        let latency_ns = latency_ns(request);
        let (number, cause) = (root.request, cause_of(request, latency_ns, kind));
        queue.push(Ahead { request: number, ns, latency_ns, cause });
        queue.sort_by_key(|ahead| (Reverse(ahead.ns), ahead.request));
        queue.truncate(MOST);
    }
}

fn cause_of(request: &Request, latency_ns: u64, kind: &RequestKind) -> Option<Cause> {
    let RequestKind { tree, typical } = kind;
    let excess_ns = latency_ns as i64 - typical.latency_ns as i64;
    if excess_ns <= 0 || excess_ns < typical.latency_ns as i64 / HARDLY_SLOWER {
        return None;
    }
    let own = split_of(request, &tree.locate(request));
    let parts: Vec<(Cause, i64)> = excesses(&own, typical).map(|(_, cause, ns)| (cause, ns)).collect();
    let of = |cause: Cause| parts.iter().filter(|part| part.0 == cause).map(|part| part.1).sum::<i64>();
    let largest = Cause::all().map(|cause| (of(cause), Reverse(cause))).max()?;
    (largest.0 > 0).then_some(largest.1.0)
}
