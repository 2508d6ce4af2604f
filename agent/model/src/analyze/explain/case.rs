//! One request: its excess by phase and cause, each part with its time, its typical time and evidence.
//!
//! Yields [`Case`]. The phases add up to the excess of the request and the parts to those of the phases, to
//! the nanosecond. Counts and samples come with the request, waits are added later one by one.

use std::collections::{BTreeMap, HashMap};

use crate::phase::{Metric, Phase, Request};
use crate::untrusted::Untrusted;

use super::{
    super::{
        cause::Cause,
        event_loop::{Polls, is_worth},
        split::{SAMPLE_NS, Split},
        summary::excesses,
        tree::{Located, PlaceId, latency_ns},
        typical::RequestKind,
    },
    counts::{self, Events, Usual},
    elsewhere::Covers,
    held::Locks,
    helped::HelperWaits,
    holders::holders,
    meanwhile::{self, Meanwhile},
    request_work::RequestWork,
    spans::own_spans,
    waits::Waits,
};

/// Waits in poll that are looked at together, workers' and arrivals, of each: those of some seconds.
const POLLS: usize = 1_024;
/// 95 % lie within this many standard deviations.
const DEVIATIONS: f64 = 1.96;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The `id` of its outermost phase.
    pub id: u64,
    /// The number that the program gave it.
    pub request: u64,
    /// ID of its trace.
    pub trace_id: [u8; 16],
    /// Process ID, in the initial namespace.
    pub pid: u32,
    /// Start of its outermost phase: CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Queue and duration, ns.
    pub latency_ns: u64,
    /// Excess over the typical request, ns: the sum over `phases`, exactly.
    pub excess_ns: i64,
    /// Phases whose time outside their children differs from the typical one, largest excess first.
    pub phases: Vec<CasePhase>,
    /// Switches of its threads that no hook saw: their waits are not recorded.
    pub switches_missed: u64,
    /// What a GPU did for it, if it lies within a window in which that was recorded.
    pub gpu: Option<RequestWork>,
    pub(super) trail: Trail,
    pub(super) locks: Locks,
    /// Its waits in poll, if it waited for much longer than usual there.
    pub(super) polls: Option<Polls>,
}

/// A phase of it, or what no phase covers: its own time, without nested phases.
#[derive(Clone, Debug, PartialEq)]
pub struct CasePhase {
    /// Names from under the request, or [`super::super::OUTSIDE`].
    pub path: Vec<Untrusted>,
    /// The typical request has this phase.
    pub is_usual: bool,
    /// More than in a typical request, ns: the sum over `parts`, exactly.
    pub excess_ns: i64,
    /// Parts that are not zero, largest first.
    pub parts: Vec<Part>,
}

/// The part of a phase's excess that one cause explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The cause.
    pub cause: Cause,
    /// More than in a typical request, ns; negative if less.
    pub excess_ns: i64,
    /// Time of this cause: exact for accounts, an estimate for samples; for helpers, how long one or more
    /// were kept from running. Causes overlap (sampled ones lie within `cpu`): only excesses add up.
    pub ns: u64,
    /// The same in a typical request, ns.
    pub typical_ns: u64,
    /// The evidence for it.
    pub evidence: Evidence,
}

/// The evidence for a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Long waits of the request's own threads in that phase for that account.
    pub waits: Option<Waits>,
    /// Further waits are not shown: a phase on another thread has the place of part of them, and which part
    /// is not known.
    pub left_out: bool,
    /// Long waits of other threads of its process during the phase, by thread, longest first.
    pub helpers: Vec<HelperWaits>,
    /// What other threads of its process did, if that may be what it waited for.
    pub meanwhile: Option<Meanwhile>,
    /// Counts that speak for it or against it; without those that are zero here and usually.
    pub counts: Vec<Compared>,
    /// The samples.
    pub sampled: Option<Sampled>,
    /// Requests that it waited for in a queue, longest in flight first.
    pub ahead: Vec<Ahead>,
}

/// A count beside the typical one.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What is counted.
    pub metric: Metric,
    /// In this phase of this request.
    pub count: u64,
    /// The mean in the typical one.
    pub typical: f64,
}

/// Number of samples behind a part of `cpu`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Samples of this kind.
    pub samples: u64,
    /// Samples of all kinds in this phase.
    pub of: u64,
    /// Samples of this kind in the typical request.
    pub typical: f64,
    /// Lower end of the excess with 95 % confidence: samples scatter by the root of their number.
    pub low_ns: u64,
    /// Upper end.
    pub high_ns: u64,
}

/// State needed to find the part that a wait belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trail {
    /// Place of each of the phases above; `own`: their events, until the usual numbers are known.
    places: Vec<PlaceId>,
    /// Phases that have the place of others.
    pub(super) covers: Covers,
    /// Phases by their `id`, as places in the list above.
    pub(super) phase_of: HashMap<u64, usize>,
    /// Phases, outside their children, during which helpers waited for a CPU: index of the phase, start and
    /// end, ns.
    pub(super) spans: Vec<(usize, u64, u64)>,
    /// Threads of the request.
    pub(super) tids: Vec<u32>,
    queued_ns: u64,
    duration_ns: u64,
    /// See `places`.
    own: HashMap<PlaceId, Events>,
}

impl Case {
    pub(super) fn new(
        request: &Request,
        located: &Located,
        split: &HashMap<PlaceId, Split>,
        own: HashMap<PlaceId, Events>,
        kind: &RequestKind,
    ) -> Self {
        let RequestKind { tree, typical } = kind;
        let root = request.root();
        let mut by_place: BTreeMap<PlaceId, Vec<Part>> = BTreeMap::new();
        let nothing = Split::default();
        for (place, cause, excess_ns) in excesses(split, typical) {
            let usual = typical.own.iter().find(|(other, _)| *other == place);
            let (mine, usual) = (split.get(&place).unwrap_or(&nothing), usual.map_or(&nothing, |one| &one.1));
            let (ns, typical_ns) = (mine.number_of(cause), usual.number_of(cause));
            let mut evidence = Evidence::default();
            if cause == Cause::Suspended && excess_ns > 0 {
                evidence.waits = holders(request, located, place, &own, ns);
            }
            let part = Part { cause, excess_ns, ns, typical_ns, evidence };
            by_place.entry(place).or_default().push(part);
        }
        let mut phases: Vec<(PlaceId, CasePhase)> = by_place
            .into_iter()
            .map(|(place, mut parts)| {
                parts.sort_by_key(|part| (std::cmp::Reverse(part.excess_ns), part.cause));
                let excess_ns = parts.iter().map(|part| part.excess_ns).sum();
                let usual = typical.own.iter().find(|(other, _)| *other == place);
                let is_usual = usual.is_some_and(|(_, split)| split.total_ns() > 0);
                (place, CasePhase { path: tree.path(place), is_usual, excess_ns, parts })
            })
            .collect();
        // Among equals in the order of the rows, which the order of reading does not change.
        let rank = |place: &PlaceId| typical.own.iter().position(|(other, _)| other == place);
        phases.sort_by_key(|(place, phase)| (std::cmp::Reverse(phase.excess_ns), rank(place)));
        let (places, phases): (Vec<PlaceId>, Vec<CasePhase>) = phases.into_iter().unzip();
        let latency_ns = latency_ns(request);
        let excess_ns = latency_ns as i64 - typical.latency_ns as i64;
        let parts = phases.iter().flat_map(|phase| &phase.parts).map(|part| (part.cause, part.excess_ns));
        let has_polled = is_worth(parts, excess_ns);
        let missed = request.phases.iter().map(|phase| phase.counts.switch_missed);
        let within = (root.start_ns, root.start_ns.saturating_add(root.duration_ns));
        Self {
            id: root.id,
            request: root.request,
            trace_id: root.trace.trace_id,
            pid: root.thread.tgid,
            start_ns: root.start_ns,
            latency_ns,
            excess_ns,
            locks: Locks::default(),
            polls: has_polled.then(|| Polls::new(root.id, root.thread.tgid, tids(request), within, POLLS)),
            trail: Trail::new(request, located, places, &phases, own),
            phases,
            switches_missed: missed.fold(0, u64::saturating_add),
            gpu: None,
        }
    }

    /// When it arrived: CLOCK_MONOTONIC, ns.
    pub fn begin_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.trail.queued_ns)
    }

    /// When it ended: CLOCK_MONOTONIC, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.trail.duration_ns)
    }

    /// The part of the excess that one cause explains, over all phases, ns.
    pub fn excess_by(&self, cause: Cause) -> i64 {
        let parts = self.phases.iter().flat_map(|phase| &phase.parts);
        parts.filter(|part| part.cause == cause).map(|part| part.excess_ns).sum()
    }

    /// The cause that makes at least half of the excess, if there is one.
    pub fn dominant(&self) -> Option<Cause> {
        let (excess, cause) = Cause::all()
            .map(|cause| (self.excess_by(cause), cause))
            .max_by_key(|&(excess, cause)| (excess, std::cmp::Reverse(cause)))?;
        (excess > 0 && i128::from(excess) * 2 >= i128::from(self.excess_ns)).then_some(cause)
    }

    /// The requests ahead in the queue, if queueing is part of the excess.
    pub(super) fn queue(&mut self) -> Option<&mut Vec<Ahead>> {
        let mut parts = self.phases.iter_mut().flat_map(|phase| &mut phase.parts);
        let queue = parts.find(|part| part.cause == Cause::Queue && part.excess_ns > 0)?;
        Some(&mut queue.evidence.ahead)
    }

    /// Compares counts and samples with the usual ones.
    pub(super) fn compare(&mut self, usual: &Usual) {
        let Self { phases, trail, .. } = self;
        let rate = usual.meanwhile_rate();
        for (phase, place) in phases.iter_mut().zip(&trail.places) {
            let own = trail.own.get(place).unwrap_or(&Events::NONE);
            let beside = Meanwhile { ns: own.meanwhile_ns, typical_ns: usual.meanwhile_ns(*place) };
            for part in &mut phase.parts {
                let compared = counts::relevant(part.cause).iter().map(|&metric| Compared {
                    metric,
                    count: counts::event(own, metric),
                    typical: usual.mean(*place, metric),
                });
                part.evidence.counts = compared.filter(|one| one.count > 0 || one.typical > 0.0).collect();
                part.evidence.sampled = sampled(part, own, usual, *place);
                part.evidence.meanwhile = meanwhile::beside(part.cause, part.excess_ns, beside, rate);
            }
        }
        (trail.own, trail.places) = (HashMap::new(), Vec::new());
    }
}

impl Trail {
    fn new(
        request: &Request,
        located: &Located,
        places: Vec<PlaceId>,
        phases: &[CasePhase],
        own: HashMap<PlaceId, Events>,
    ) -> Self {
        let index_of: HashMap<PlaceId, usize> =
            places.iter().enumerate().map(|(at, &place)| (place, at)).collect();
        let with_index = |(phase, place): (&Phase, &PlaceId)| Some((phase.id, *index_of.get(place)?));
        let phase_of = request.phases.iter().zip(&located.places).filter_map(with_index).collect();
        let is_helped =
            |index: &usize| phases[*index].parts.iter().any(|part| matches!(part.cause, Cause::Helper(_)));
        let spans = own_spans(request, located).into_iter().filter_map(|(place, begin_ns, end_ns)| {
            index_of.get(&place).copied().filter(is_helped).map(|index| (index, begin_ns, end_ns))
        });
        let tids = tids(request);
        let root = request.root();
        let queued_ns = latency_ns(request).saturating_sub(root.duration_ns);
        let (spans, duration_ns) = (spans.collect(), root.duration_ns);
        let covers = Covers::new(request, located);
        Self { places, covers, phase_of, spans, tids, queued_ns, duration_ns, own }
    }
}

/// Threads that the request was on, each once.
fn tids(request: &Request) -> Vec<u32> {
    let mut tids: Vec<u32> = request.phases.iter().map(|phase| phase.thread.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    tids
}

fn sampled(part: &Part, own: &Events, usual: &Usual, place: PlaceId) -> Option<Sampled> {
    let metric = part.cause.samples()?;
    let of = counts::SAMPLES.iter().map(|&kind| counts::event(own, kind)).sum();
    let (samples, typical) = (counts::event(own, metric), usual.mean(place, metric));
    if of == 0 {
        return None;
    }
    let more = samples as f64 - typical;
    // The typical number is a mean over many requests and scatters by so much less.
    let apart = DEVIATIONS * (samples as f64 + typical / usual.requests().max(1) as f64).sqrt();
    let ns = |samples: f64| (samples.max(0.0) * SAMPLE_NS as f64) as u64;
    Some(Sampled { samples, of, typical, low_ns: ns(more - apart), high_ns: ns(more + apart) })
}

/// A request in flight while another one queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The number that the program gave it.
    pub request: u64,
    /// Part of the wait during which it was in flight, ns.
    pub ns: u64,
    /// Its own latency, ns.
    pub latency_ns: u64,
    /// The largest part of its excess over the typical request, if it had any.
    pub cause: Option<Cause>,
}
