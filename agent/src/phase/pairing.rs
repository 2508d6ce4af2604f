//! From edges and the lives of tasks to phases: the pairing. Pure; time comes in with the records.
//!
//! Fed with records in the order of their times (the pump sees to it), it yields requests when their last phase has
//! ended, threads when they end, and marks. What finds no partner is counted; nothing is guessed.

use std::collections::{HashMap, VecDeque};

use guestscope_ebpf::{
    EDGE_NAME_UNREADABLE, EDGE_TORN, EdgeRecord, NAME_BYTES, Operation, TOKEN_CHILD_BITS, is_root_token,
};

use super::{
    Ending, Mark, PairingLosses, Pause, PhaseKind, Request, Thread, ThreadId, Wait,
    blame::Pasts,
    helper_waits::Waits,
    helpers::Processes,
    ids::IdSource,
    io::Ios,
    names::Names,
    open::{OpenPhase, OpenRequest, Place, begun},
    thread::{Sequence, Snapshot, ThreadState, thread_id},
    wait::Early,
};
use crate::record::Record;
use crate::untrusted::Untrusted;

/// What pairing yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A whole request, or a whole process.
    Request(Request),
    /// A thread that ended, or was last seen.
    Thread(Thread),
    /// A point in time.
    Mark(Mark),
    /// The guest was stopped. It comes before the requests that it lies in.
    Pause(Pause),
    /// A thread was off the CPU for long. It comes before the request that it lies in, never after it.
    Wait(Wait),
}

/// The state of all threads and open phases.
#[derive(Debug)]
pub struct Pairing {
    pub(super) ids: IdSource,
    next_id: u64,
    pub(super) threads: HashMap<ThreadId, ThreadState>,
    /// By number.
    pub(super) open: HashMap<u64, OpenPhase>,
    /// From what the program calls a phase to its number.
    pub(super) keys: HashMap<(u32, u16, u64), u64>,
    pub(super) requests: HashMap<u64, OpenRequest>,
    /// By process: its main thread, which has ended before others, as it was then, and its name.
    pub(super) leaders: HashMap<u32, (ThreadId, Snapshot, Untrusted)>,
    pub(super) helpers: Processes,
    pub(super) waits: Waits,
    pub(super) pasts: Pasts,
    pub(super) early: Early,
    /// I/Os of threads that are gone, the first to go first.
    pub(super) gone: VecDeque<(ThreadId, Ios)>,
    names: Names,
    /// What found no partner.
    pub losses: PairingLosses,
    pub(super) outputs: Vec<Output>,
}

/// An edge, taken apart.
pub(super) struct Edge<'a> {
    pub(super) record: &'a EdgeRecord,
    pub(super) thread: ThreadId,
    instance: u16,
    pub(super) now: Snapshot,
}

impl Edge<'_> {
    /// The token of the root that its phase is of.
    pub(super) fn root(&self) -> u64 {
        self.record.token >> TOKEN_CHILD_BITS << TOKEN_CHILD_BITS
    }

    pub(super) fn key(&self, token: u64) -> (u32, u16, u64) {
        (self.thread.tgid, self.instance, token)
    }
}

impl Pairing {
    /// For the run with this id.
    pub fn new(run_id: [u8; 16]) -> Self {
        Self {
            ids: IdSource::new(run_id),
            next_id: 1,
            threads: HashMap::new(),
            open: HashMap::new(),
            keys: HashMap::new(),
            requests: HashMap::new(),
            leaders: HashMap::new(),
            helpers: Processes::default(),
            waits: Waits::default(),
            pasts: Pasts::default(),
            early: Early::default(),
            gone: VecDeque::new(),
            names: Names::default(),
            losses: PairingLosses::default(),
            outputs: Vec::new(),
        }
    }

    /// What has been yielded since the last call.
    pub fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Threads that have not ended, and the slots of their ledgers.
    pub fn live_threads(&self) -> impl Iterator<Item = (ThreadId, u16)> + '_ {
        self.threads.iter().map(|(&id, state)| (id, state.slot))
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Takes a record of any kind.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Edge(edge) => self.edge(edge),
            Record::Task(kind, task) => self.task(*kind, task),
            Record::Wait(wait) => self.wait(wait),
            Record::Io(io) => self.io(io),
        }
    }

    /// A marker fired.
    pub fn edge(&mut self, record: &EdgeRecord) {
        let thread = thread_id(&record.ledger);
        let instance = (record.operation >> 16) as u16;
        let edge = Edge { record, thread, instance, now: Snapshot::of_edge(record) };
        if record.header.flags & EDGE_TORN != 0 {
            self.losses.torn_edges += 1;
        }
        self.helpers.edge(record);
        let state = self.threads.entry(thread).or_default();
        state.slot = record.ledger.slot;
        match state.edge(instance, (record.operation >> 32) as u32) {
            Sequence::Next => {}
            Sequence::Before(edges) => self.losses.edges_before += edges,
            Sequence::Lost(edges) => {
                self.losses.edges_lost += edges;
                for id in &state.stack {
                    if let Some(open) = self.open.get_mut(id) {
                        open.phase.edges_lost += edges;
                    }
                }
                self.doubt(thread);
            }
        }
        match Operation::from_number(record.operation as u8) {
            Some(Operation::Begin) => self.begin(&edge, false),
            Some(Operation::Request) => self.begin(&edge, true),
            Some(Operation::End) => self.end(&edge),
            Some(Operation::Leave) => self.leave(&edge),
            Some(Operation::Enter) => self.enter(&edge),
            Some(Operation::Context) => self.context(&edge),
            Some(Operation::Identity) => self.identity(&edge),
            Some(Operation::Mark) => self.mark(&edge),
            None => self.losses.unknown_edges += 1,
        }
        self.place_behind_edge(thread);
    }

    fn name(&mut self, record: &EdgeRecord) -> (Untrusted, bool) {
        let length = usize::try_from(record.arguments[1]).unwrap_or(usize::MAX);
        let unreadable = record.header.flags & EDGE_NAME_UNREADABLE != 0;
        let bytes = if unreadable { &[][..] } else { &record.name[..length.min(NAME_BYTES)] };
        let (name, repaired) = self.names.get(bytes);
        let damaged = unreadable || repaired || length > NAME_BYTES;
        self.losses.damaged_names += u64::from(damaged);
        (if unreadable { self.names.get(b"(unreadable)").0 } else { name }, damaged)
    }

    fn begin(&mut self, edge: &Edge<'_>, outermost: bool) {
        let joined = if outermost { None } else { self.join_neighbour(edge) };
        let key = edge.key(edge.record.token);
        if let Some(stale) = self.keys.get(&key).copied() {
            // The program uses the token again, so the end of its last use was lost.
            self.end_at(stale, edge, Ending::Lost);
        }
        if !outermost && is_root_token(edge.record.token) {
            // The library has nothing open on this thread, so the ends of what is still here were lost.
            for open in self.open_on(edge.thread, edge.instance) {
                self.close(open, &edge.now, Ending::Lost);
            }
        }
        if self.is_inside_the_unseen(edge) {
            // It is no request of its own: its end will find no begin, and be counted.
            return;
        }
        let (name, name_damaged) = self.name(edge.record);
        let id = self.next_id();
        let state = self.threads.entry(edge.thread).or_default();
        state.phases += 1;
        let parent = if outermost { None } else { state.stack.last().copied() };
        state.stack.push(id);
        let root = parent.and_then(|parent| self.open.get(&parent)).map_or(id, |parent| parent.root);
        let kind = if parent.is_none() { PhaseKind::Request } else { PhaseKind::Phase };
        let (now, share) = joined.unwrap_or_else(|| (edge.now, self.helpers.share(key.0)));
        let mut phase = begun(id, kind, name, edge.thread, now.time_ns);
        phase.name_damaged = name_damaged;
        phase.parent = parent;
        phase.root = root;
        phase.request = edge.record.arguments[2];
        self.keys.insert(key, id);
        self.note_thread(edge.thread);
        let place = Place::On(edge.thread, now);
        self.open.insert(id, OpenPhase { root, place, key, share, phase });
        self.requests.entry(root).or_default().open += 1;
        if outermost {
            self.queued(edge, id);
        }
    }

    /// Whether the library made this phase inside a request that its thread had begun before it was adopted.
    fn is_inside_the_unseen(&mut self, edge: &Edge<'_>) -> bool {
        let token = edge.record.token;
        let root = edge.root();
        let is_inside = root != 0 && token != root && !self.keys.contains_key(&edge.key(root));
        let Some(state) = self.threads.get_mut(&edge.thread) else { return false };
        state.ran_before &= is_inside;
        state.ran_before
    }

    /// An open-loop request waited from its scheduled time on: a phase of its own, and nobody's time.
    fn queued(&mut self, edge: &Edge<'_>, root: u64) {
        let scheduled_ns = edge.record.arguments[3];
        if scheduled_ns == 0 || scheduled_ns >= edge.now.time_ns {
            return;
        }
        let id = self.next_id();
        let name = self.names.get(b"queue").0;
        let mut phase = begun(id, PhaseKind::Queue, name, edge.thread, scheduled_ns);
        phase.duration_ns = edge.now.time_ns - scheduled_ns;
        phase.parent = Some(root);
        phase.root = root;
        phase.request = edge.record.arguments[2];
        self.requests.entry(root).or_default().add(phase);
    }

    /// The phase that an edge means; token 0 is the innermost of its thread.
    pub(super) fn target(&self, edge: &Edge<'_>) -> Option<u64> {
        if edge.record.token != 0 {
            return self.keys.get(&edge.key(edge.record.token)).copied();
        }
        self.threads.get(&edge.thread)?.stack.last().copied()
    }

    /// Ends a phase at an edge, whichever thread that came from. What began inside it and is still open on its thread
    /// has lost its own end: phases nest.
    pub(super) fn end_at(&mut self, id: u64, edge: &Edge<'_>, ending: Ending) {
        for inner in self.inside(id) {
            self.close(inner, &self.snapshot_for(inner, edge), Ending::Lost);
        }
        self.close(id, &self.snapshot_for(id, edge), ending);
    }

    /// The phases of one copy of the library that are on this thread, the innermost first.
    fn open_on(&self, thread: ThreadId, instance: u16) -> Vec<u64> {
        let Some(state) = self.threads.get(&thread) else { return Vec::new() };
        let is_its = |id: &u64| self.open.get(id).is_some_and(|open| open.key.1 == instance);
        state.stack.iter().rev().copied().filter(is_its).collect()
    }

    /// The phases inside this one that are on the same thread, the innermost first. A request that began within it, or
    /// another task's phase, is not inside.
    fn inside(&self, id: u64) -> Vec<u64> {
        let Some(Place::On(thread, _)) = self.open.get(&id).map(|open| open.place) else { return Vec::new() };
        let Some(state) = self.threads.get(&thread) else { return Vec::new() };
        let around = |id: &u64| self.open.get(id)?.phase.parent;
        let above = state.stack.iter().rev().copied().take_while(|&open| open != id);
        above.filter(|&open| std::iter::successors(Some(open), around).any(|outer| outer == id)).collect()
    }

    /// The snapshot that ends a phase's segment: the edge's, if it comes from the thread that the phase is on. A
    /// phase that another thread ends, without leave and enter, has no accounts since its segment began.
    fn snapshot_for(&self, id: u64, edge: &Edge<'_>) -> Snapshot {
        match self.open.get(&id).map(|open| open.place) {
            Some(Place::On(thread, begin)) if thread != edge.thread => {
                Snapshot { time_ns: edge.now.time_ns, ..begin }
            }
            _ => edge.now,
        }
    }

    fn unstack(&mut self, id: u64) {
        if let Some(Place::On(thread, _)) = self.open.get(&id).map(|open| open.place)
            && let Some(state) = self.threads.get_mut(&thread)
        {
            state.stack.retain(|&open| open != id);
            self.note_thread(thread);
        }
    }

    fn leave(&mut self, edge: &Edge<'_>) {
        let Some(id) = self.target(edge) else {
            self.losses.unmatched_ends += 1;
            return;
        };
        // What is open inside it and was not left by itself cannot go on without it.
        for id in self.inside(id).into_iter().chain([id]) {
            let now = self.snapshot_for(id, edge);
            self.note_segment(id, &now);
            self.unstack(id);
            if let Some(open) = self.open.get_mut(&id) {
                open.settle(&now);
            }
            self.note_suspended(id);
        }
    }

    fn enter(&mut self, edge: &Edge<'_>) {
        let Some(id) = self.target(edge).filter(|_| edge.record.token != 0) else {
            self.losses.unmatched_ends += 1;
            return;
        };
        let now = self.snapshot_for(id, edge);
        // Entered twice, or on another thread without a leave: that segment ends here.
        self.note_segment(id, &now);
        self.unstack(id);
        let Some(mut open) = self.open.remove(&id) else { return };
        self.resumed(&open, now.time_ns);
        open.settle(&now);
        open.go_on(edge.thread, &edge.now);
        self.open.insert(id, open);
        self.threads.entry(edge.thread).or_default().stack.push(id);
        self.note_thread(edge.thread);
        self.note_suspended(id);
    }

    fn mark(&mut self, edge: &Edge<'_>) {
        let (name, _) = self.name(edge.record);
        let phase = self.threads.get(&edge.thread).and_then(|state| state.stack.last().copied());
        let time_ns = edge.now.time_ns;
        self.outputs.push(Output::Mark(Mark { thread: edge.thread, name, time_ns, phase }));
    }

    /// Ends a phase at a snapshot, and its request if that was the last open one of it.
    pub(super) fn close(&mut self, id: u64, now: &Snapshot, ending: Ending) {
        self.note_segment(id, now);
        self.unstack(id);
        let Some(mut open) = self.open.remove(&id) else { return };
        open.settle(now);
        self.retire(open, ending);
    }

    fn retire(&mut self, open: OpenPhase, ending: Ending) {
        if self.keys.get(&open.key) == Some(&open.phase.id) {
            self.keys.remove(&open.key);
        }
        if ending != Ending::Ended {
            self.losses.unended_phases += 1;
        }
        let (root, tgid) = (open.root, open.key.0);
        let share = open.share;
        let mut phase = open.finish(ending);
        phase.helpers = self.helpers.since(tgid, &share);
        phase.helpers.wait = self.waits.laid_over(tgid, &phase);
        phase.helpers.partial |= self.waits.is_partial(tgid);
        self.landed(tgid, phase.id);
        let Some(request) = self.requests.get_mut(&root) else { return };
        request.add(phase);
        request.open -= 1;
        if request.open == 0
            && let Some(request) = self.requests.remove(&root)
        {
            self.outputs.push(Output::Request(request.finish(&self.ids)));
        }
    }

    pub(super) fn abandon(&mut self, id: u64, time_ns: u64, ending: Ending) {
        self.place_early_in(id, u64::MAX);
        self.unstack(id);
        let Some(mut open) = self.open.remove(&id) else { return };
        open.abandon(time_ns);
        self.retire(open, ending);
    }

    pub(super) fn open_of(&self, matches: impl Fn(&OpenPhase) -> bool) -> Vec<u64> {
        let mut ids: Vec<u64> =
            self.open.iter().filter(|(_, open)| matches(open)).map(|(&id, _)| id).collect();
        // The innermost first, so that requests come out in one order whatever the map's.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }
}
