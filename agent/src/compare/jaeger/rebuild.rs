//! Rebuilds requests from the spans of phases. Pure.
//!
//! What spans contain is restored exactly: durations, accounts, counts, helpers' waits, nesting. Starts are
//! in wall time and were moved by a microsecond or so where siblings touch; only their order matters here.
//! What spans do not contain (the process, the thread's start time, names that were repaired) is empty.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use guestscope_contract::{Account, NAME_BYTES, Source, metrics::Quantity};

use super::answer::Span;
use crate::phase::{Accounts, Counts, Ending, Helpers, Phase, PhaseKind, Request, ThreadId, TraceIds};
use crate::untrusted::Untrusted;

/// Nesting limit; deeper phases are not genuine.
const DEEPEST: usize = 1_000;

/// Requests of one trace, each with the index of its span, and the number of spans without a request.
pub(super) fn requests(spans: &[Span], next_id: &mut u64) -> (Vec<(usize, Request)>, u64) {
    let mut by_id: HashMap<&str, usize> = HashMap::with_capacity(spans.len());
    for (at, span) in spans.iter().enumerate() {
        // A span that was sent twice is the same twice.
        by_id.entry(&span.id).or_insert(at);
    }
    let mut by_root: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let mut astray = 0;
    for (at, span) in spans.iter().enumerate().filter(|(at, span)| by_id[span.id.as_str()] == *at) {
        match root_of(at, spans, &by_id) {
            Some((root, depth)) if spans[root].origin == span.origin => {
                by_root.entry(root).or_default().push((at, depth));
            }
            Some(_) | None => astray += 1,
        }
    }
    let mut found = Vec::with_capacity(by_root.len());
    for (root, mut members) in by_root {
        // The outermost first, parents before what is nested in them.
        members.sort_by_key(|&(at, depth)| (depth > 0, spans[at].start_ns, depth, Reverse(spans[at].end_ns)));
        let members: Vec<usize> = members.into_iter().map(|(at, _)| at).collect();
        match request(spans, &members, &by_id, *next_id) {
            Some(request) => {
                *next_id += members.len() as u64;
                found.push((root, request));
            }
            None => astray += members.len() as u64,
        }
    }
    (found, astray)
}

/// A request, or a whole process of a program without marks.
fn is_outermost(span: &Span) -> bool {
    span.is_request || span.numbers.get("guestscope.request").is_none()
}

/// The outermost span around it, and its depth. None if the chain ends elsewhere, or nowhere.
fn root_of(mut at: usize, spans: &[Span], by_id: &HashMap<&str, usize>) -> Option<(usize, usize)> {
    for depth in 0..DEEPEST {
        if is_outermost(&spans[at]) {
            return Some((at, depth));
        }
        at = *by_id.get(spans[at].parent.as_str())?;
    }
    None
}

fn request(
    spans: &[Span],
    members: &[usize],
    by_id: &HashMap<&str, usize>,
    first_id: u64,
) -> Option<Request> {
    let id_of: HashMap<usize, u64> = members.iter().copied().zip(first_id..).collect();
    let phases = members.iter().map(|at| {
        let span = &spans[*at];
        let is_root = id_of[at] == first_id;
        let parent = by_id.get(span.parent.as_str()).and_then(|parent| id_of.get(parent)).copied();
        let parent = parent.filter(|_| !is_root);
        let ids = Ids { id: id_of[at], parent, root: first_id };
        phase(span, is_root, &ids)
    });
    Some(Request { phases: phases.collect::<Option<_>>()? })
}

struct Ids {
    id: u64,
    parent: Option<u64>,
    root: u64,
}

/// None if the span lacks our duration attribute: then it is not a span of ours.
fn phase(span: &Span, is_root: bool, ids: &Ids) -> Option<Phase> {
    let number = |key: &str| span.numbers.get(key).unwrap_or(0);
    let duration_ns = span.numbers.get("guestscope.duration_ns")?;
    let accounts = Accounts(Account::ALL.map(|account| number(Quantity::Time(account).row().attribute)));
    let suspended_ns = number(Quantity::Suspended.row().attribute);
    // Only a queue has no accounts.
    let is_queue =
        span.name == "queue" && !is_root && duration_ns > 0 && accounts.total_ns() == 0 && suspended_ns == 0;
    let kind = match (is_root, is_queue) {
        (true, _) if span.is_request => PhaseKind::Request,
        (true, _) => PhaseKind::Process,
        (false, true) => PhaseKind::Queue,
        (false, false) => PhaseKind::Phase,
    };
    // The outermost span reaches back to the start of its queue; its end stays where it was.
    let start_ns = if is_root { span.end_ns.saturating_sub(duration_ns) } else { span.start_ns };
    let mut phase = Phase {
        id: ids.id,
        parent: ids.parent,
        root: ids.root,
        kind,
        name: name(&span.name),
        name_damaged: false,
        source: Source::Marker,
        status: None,
        request: number("guestscope.request"),
        thread: ThreadId { tid: number("thread.id") as u32, ..ThreadId::default() },
        comm: Untrusted::default(),
        start_ns,
        duration_ns,
        suspended_ns: 0,
        accounts: Accounts::default(),
        counts: Counts::default(),
        pause_ns: 0,
        holder: None,
        helpers: Helpers::default(),
        trace: TraceIds::default(),
        ending: span.ending.as_deref().map_or(Some(Ending::Ended), Ending::by_name)?,
        edges_lost: 0,
    };
    for quantity in Quantity::all() {
        phase.set(quantity, number(quantity.row().attribute));
    }
    Some(phase)
}

/// A name, cut to the maximum length of a marker's name.
fn name(text: &str) -> Untrusted {
    let end = (0..=NAME_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].into()
}
