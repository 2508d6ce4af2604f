//! The tree of phase names under one name of request, and a request's time in it.
//!
//! Yields [`Leaves`] per request: time by place in the tree and cause, each nanosecond once. The number of
//! places is bounded, because a program may give each phase a different name. Requests are not kept.

use std::collections::HashMap;

use crate::phase::{Accounts, Phase, PhaseKind, Request};
use crate::untrusted::Untrusted;

use super::split::Split;

/// The phase of a garbage collection, as hooks/collector.py names it.
pub const COLLECTION: &str = "garbage collection";
/// Name of the time that no phase of the request covers.
pub const OUTSIDE: &str = "(outside phases)";
/// Phases whose names came after there was room for more.
pub const OTHER_PHASES: &str = "(other phases)";
/// Requests whose names came after there was room for more.
pub const OTHER_REQUESTS: &str = "(other requests)";

/// Clocks of two CPUs may differ by as much.
const CLOCK_NS: u128 = 1_000;

/// Places in one tree.
const PLACES: usize = 64;
/// Places in all trees of a run. Each costs up to 160 KB while the run is read, half of that where nothing
/// takes longer than a second: with three more for each kind of request 41 MB at most.
pub(super) const ALL_PLACES: usize = 160;

/// A place in the tree.
pub(super) type PlaceId = usize;
/// The outermost phase.
pub(super) const ROOT: PlaceId = 0;
/// Place for names beyond the limit.
pub(super) const OTHER: PlaceId = 1;

/// When a place was first seen: start and number of the request, then the place within it. Not the order of
/// reading, so that the order of requests in a folder does not matter.
type FirstSeen = (u64, u64, usize);

const NEVER: FirstSeen = (u64::MAX, u64::MAX, usize::MAX);

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) parent: PlaceId,
    pub(super) name: Untrusted,
    pub(super) is_queue: bool,
    /// 0 directly under the request.
    pub(super) depth: usize,
    seen: FirstSeen,
    /// Places below it, without [`OTHER`].
    nested: Vec<PlaceId>,
}

impl Place {
    fn new(parent: PlaceId, name: Untrusted, is_queue: bool, depth: usize) -> Self {
        Self { parent, name, is_queue, depth, seen: NEVER, nested: Vec::new() }
    }
}

/// The places, by name under their parents.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    places: Vec<Place>,
}

impl Tree {
    pub(super) fn new(root: &Untrusted) -> Self {
        let place = |name: Untrusted| Place::new(ROOT, name, false, 0);
        Self { places: vec![place(root.clone()), place(OTHER_PHASES.into())] }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&self, id: PlaceId) -> &Place {
        &self.places[id]
    }

    /// The place of a phase, a new one if there is room in this tree and in all of them.
    fn intern(&mut self, parent: PlaceId, phase: &Phase, room: &mut usize) -> PlaceId {
        if parent == OTHER {
            return OTHER;
        }
        if let Some(known) = self.known(parent, phase) {
            return known;
        }
        if self.places.len() >= PLACES || *room == 0 {
            return OTHER;
        }
        *room -= 1;
        let depth = if parent == ROOT { 0 } else { self.places[parent].depth + 1 };
        let id = self.places.len();
        self.places.push(Place::new(parent, phase.name.clone(), phase.kind == PhaseKind::Queue, depth));
        self.places[parent].nested.push(id);
        id
    }

    /// The place of this name below a place. There are few of them, so that comparing names is faster than
    /// hashing this one.
    fn known(&self, parent: PlaceId, phase: &Phase) -> Option<PlaceId> {
        let is_queue = phase.kind == PhaseKind::Queue;
        self.places[parent].nested.iter().copied().find(|&id| {
            let place = &self.places[id];
            place.is_queue == is_queue && place.name == phase.name
        })
    }

    /// The place of a phase, if the run that was summed up had it.
    fn find(&self, parent: PlaceId, phase: &Phase) -> PlaceId {
        if parent == OTHER { OTHER } else { self.known(parent, phase).unwrap_or(OTHER) }
    }

    /// Places of a request's phases; adds new places as long as there is room.
    pub(super) fn learn(&mut self, request: &Request, room: &mut usize) -> Located {
        let root = request.root();
        let (start_ns, id) = (root.start_ns, root.id);
        let located = locate(request, |parent, phase| self.intern(parent, phase, room));
        for (index, &place) in located.places.iter().enumerate() {
            let seen = &mut self.places[place].seen;
            *seen = (*seen).min((start_ns, id, index));
        }
        located
    }

    /// Places of a request's phases in a tree that no longer grows.
    pub(super) fn locate(&self, request: &Request) -> Located {
        locate(request, |parent, phase| self.find(parent, phase))
    }

    /// All places but the root: queues first, then parents before nested phases, siblings as first seen.
    pub(super) fn order(&self) -> Vec<PlaceId> {
        let mut children: Vec<Vec<PlaceId>> = vec![Vec::new(); self.places.len()];
        for (id, place) in self.places.iter().enumerate().skip(1) {
            children[place.parent].push(id);
        }
        for siblings in &mut children {
            siblings.sort_by_key(|&id| (!self.places[id].is_queue, id == OTHER, self.places[id].seen));
            siblings.reverse();
        }
        let mut order = Vec::with_capacity(self.places.len());
        let mut open = std::mem::take(&mut children[ROOT]);
        while let Some(id) = open.pop() {
            order.push(id);
            open.append(&mut children[id]);
        }
        order
    }

    /// Names from under the request down to the place; [`OUTSIDE`] for the request itself.
    pub(super) fn path(&self, id: PlaceId) -> Vec<Untrusted> {
        if id == ROOT {
            return vec![OUTSIDE.into()];
        }
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            names.push(self.places[at].name.clone());
            at = self.places[at].parent;
        }
        names.reverse();
        names
    }
}

/// Places of one request's phases, in their order.
#[derive(Clone, Debug)]
pub(super) struct Located {
    /// Places in the tree of names.
    pub(super) places: Vec<PlaceId>,
    /// Index of each phase's parent within the request.
    pub(super) parents: Vec<usize>,
}

impl Located {
    /// The phase lies inside another one that has lost its name: its time is already counted there.
    pub(super) fn is_inside_other(&self, index: usize) -> bool {
        self.places[index] == OTHER && self.places[self.parents[index]] == OTHER
    }
}

fn locate(request: &Request, mut place_of: impl FnMut(PlaceId, &Phase) -> PlaceId) -> Located {
    let parents = parents(&request.phases);
    let mut places = Vec::with_capacity(parents.len());
    places.push(ROOT);
    for (phase, &parent) in request.phases.iter().zip(&parents).skip(1) {
        places.push(place_of(places[parent], phase));
    }
    Located { places, parents }
}

/// Index of each phase's parent. A parent that does not come before its child is none: the child is then the
/// request's own. So a damaged folder cannot make a cycle.
fn parents(phases: &[Phase]) -> Vec<usize> {
    // Few phases: looking back is faster than hashing. Many: looking back would be quadratic.
    if phases.len() <= 32 {
        let before = |index: usize, id: u64| phases[..index].iter().rposition(|phase| phase.id == id);
        return (0..phases.len())
            .map(|at| phases[at].parent.and_then(|id| before(at, id)).unwrap_or(0))
            .collect();
    }
    let mut index_of: HashMap<u64, usize> = HashMap::with_capacity(phases.len());
    let mut parents = Vec::with_capacity(phases.len());
    for (index, phase) in phases.iter().enumerate() {
        parents.push(phase.parent.and_then(|id| index_of.get(&id).copied()).unwrap_or(0));
        index_of.insert(phase.id, index);
    }
    parents
}

/// A request's time by place: what each phase has beyond its nested phases. Adds up to the latency exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaves {
    /// Place and its own time, in the order of the phases; a place may come more than once.
    pub(super) own: Vec<(PlaceId, Split)>,
    /// Time of nested phases beyond their parent's: phases that were open at the same time, on several
    /// threads or suspended on one. It is no part of the request's latency.
    pub(super) overlapping_ns: u128,
    /// What each phase has of its own that came in the place of its parent's time.
    pub(super) elsewhere: Vec<Elsewhere>,
}

/// Time of a phase that its parent spent otherwise, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// On another thread, while the parent waited.
    pub(super) moved_ns: u64,
    /// On no thread, while the parent was on one: it is the parent's time, with the parent's waits.
    pub(super) lent_ns: u64,
}

impl Leaves {
    /// Each phase takes its time from its parent, cause by cause, as far as the parent has any left. Where
    /// phases nest on one thread that is plain subtraction. A phase that moved to another thread has time
    /// that its parent never had: it takes the place of the parent's waits for others, as of an event loop's
    /// in poll while a worker computes. A phase that was suspended while its parent was on a thread (a
    /// coroutine, in the request of a connection) has the parent's time meanwhile: what the event loop did.
    /// What does not fit there stays out, so that no part is negative or counted twice.
    pub(super) fn of(request: &Request, located: &Located) -> Self {
        let OwnTimes { own, overlapping_ns, elsewhere } = OwnTimes::of(request, &located.parents);
        Self { own: located.places.iter().copied().zip(own).collect(), overlapping_ns, elsewhere }
    }
}

impl Elsewhere {
    /// Without what the clocks of two CPUs may disagree by.
    fn without_noise(self) -> Self {
        let real = |ns: u64| if u128::from(ns) > CLOCK_NS { ns } else { 0 };
        Self { moved_ns: real(self.moved_ns), lent_ns: real(self.lent_ns) }
    }
}

/// Own time of each phase, and the time of nested phases beyond their parents', see [`Leaves`].
struct OwnTimes {
    own: Vec<Split>,
    overlapping_ns: u128,
    elsewhere: Vec<Elsewhere>,
}

impl OwnTimes {
    fn of(request: &Request, parents: &[usize]) -> Self {
        let phases = request.phases.len();
        let mut left: Vec<Split> = Vec::with_capacity(phases);
        let mut elsewhere = vec![Elsewhere::default(); phases];
        // What each phase has left for nested ones. A nested phase leaves its thread some microseconds before
        // the phase around it: for these the inner one is suspended while the outer one is on a CPU. So their
        // sums tell whether phases overlap, not their causes.
        let mut room: Vec<u128> = Vec::with_capacity(phases);
        // Up to which time nested phases cover each: of two at the same time, one takes the place of its
        // waits.
        let mut covered: Vec<u64> = vec![0; phases];
        let mut overlapping_ns = 0;
        for (index, (phase, &parent)) in request.phases.iter().zip(parents).enumerate() {
            let whole = Split::of(phase);
            // A queue lies before its request and takes nothing from it.
            room.push(whole.total_ns());
            if index == 0 || phase.kind == PhaseKind::Queue {
                left.push(whole);
                continue;
            }
            let beyond_ns = whole.total_ns().saturating_sub(room[parent]);
            room[parent] = room[parent].saturating_sub(whole.total_ns());
            overlapping_ns += if beyond_ns > CLOCK_NS { beyond_ns } else { 0 };
            let taken = left[parent].take(&whole);
            let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
            let alone_ns = end_ns.saturating_sub(phase.start_ns.max(covered[parent]));
            covered[parent] = covered[parent].max(end_ns);
            let most_ns = u128::from(alone_ns).saturating_sub(taken.total_ns()) as u64;
            let own = left[parent].give_way(&whole, &taken, most_ns);
            let moved_ns = (own.total_ns() - taken.total_ns()) as u64;
            let suspended_ns = (whole.suspended - taken.suspended).min(most_ns - moved_ns);
            elsewhere[index] = Elsewhere { moved_ns, lent_ns: suspended_ns }.without_noise();
            left.push(own);
        }
        // Last, when all nested phases have what was theirs on the same thread. Parents come first.
        for (index, &parent) in parents.iter().enumerate() {
            let lent = left[parent].lend(elsewhere[index].lent_ns);
            elsewhere[index].lent_ns = lent.total_ns() as u64;
            left[index].add(&lent);
        }
        Self { own: left, overlapping_ns, elsewhere }
    }
}

/// A request's time by cause, without queues: that of its own thread, but what nested phases did on other
/// threads has the place of its waits for others.
pub(super) fn whole_time(request: &Request) -> Split {
    let whole = Split::of(request.root());
    if request.phases.len() == 1 {
        return whole;
    }
    let parents = parents(&request.phases);
    if !is_moved(request, &parents) {
        return whole;
    }
    let OwnTimes { own, .. } = OwnTimes::of(request, &parents);
    let own = own.iter().zip(&request.phases).filter(|(_, phase)| phase.kind != PhaseKind::Queue);
    let mut sum = Split::default();
    own.for_each(|(own, _)| sum.add(own));
    sum
}

/// Whether nested phases have time on threads that their parents do not have.
fn is_moved(request: &Request, parents: &[usize]) -> bool {
    let mut left: Vec<Accounts> = Vec::with_capacity(request.phases.len());
    for (index, (phase, &parent)) in request.phases.iter().zip(parents).enumerate() {
        let nested = index > 0 && phase.kind != PhaseKind::Queue;
        if nested {
            for (around, own) in left[parent].0.iter_mut().zip(phase.accounts.0) {
                let Some(rest) = around.checked_sub(own) else { return true };
                *around = rest;
            }
        }
        left.push(phase.accounts);
    }
    false
}

/// Queue and duration of the outermost phase, in ns.
pub(super) fn latency_ns(request: &Request) -> u64 {
    let queued = request.phases.iter().filter(|phase| phase.kind == PhaseKind::Queue);
    queued.fold(request.root().duration_ns, |sum, phase| sum.saturating_add(phase.duration_ns))
}
