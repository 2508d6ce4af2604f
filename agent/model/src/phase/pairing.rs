//! Pairing: from edges and lives of tasks to phases. Pure; times come with the records.
//!
//! It takes records in the order of their times (the pump ensures that), and yields requests when their last
//! phase has ended, threads when they end, and marks. Edges without a partner are counted, not guessed.

use std::collections::{BTreeSet, VecDeque};

use guestscope_contract::{
    EDGE_TORN, EdgeRecord, KERNEL_INSTANCE, Operation, Source, TOKEN_CHILD_BITS, UNNUMBERED,
};

use super::{
    blame::Pasts,
    cut::Cut,
    early::Early,
    helper_waits::Waits,
    helpers::Processes,
    ids::IdSource,
    ios::Ios,
    key::PhaseKey,
    limits::Limits,
    names::Names,
    open::{OpenPhase, OpenRequest, Place, helped},
    queue::Queues,
    snapshot::Snapshot,
    sources::Sources,
    table::Table,
    thread::Sequence,
    thread_id::{ThreadId, thread_id},
    threads::Threads,
    turns::Turns,
    unfinished::Unended,
    values::{Ending, Mark, PairingLosses},
};
use crate::record::Record;
use crate::untrusted::Untrusted;

pub use super::output::Output;

/// The state of all threads and open phases.
#[derive(Debug)]
pub struct Pairing {
    pub(super) limits: Limits,
    pub(super) ids: IdSource,
    next_id: u64,
    pub(super) threads: Threads,
    /// Open phases by number. Boxed, since a table has room for up to twice its entries.
    pub(super) open: Table<u64, Box<OpenPhase>>,
    /// Open phases on no thread, by process.
    pub(super) suspended: BTreeSet<(u32, u64)>,
    /// Threads that wait for a phase, of all phases.
    pub(super) beside: usize,
    /// Phase numbers by the program's key.
    pub(super) keys: Table<PhaseKey, u64>,
    pub(super) requests: Table<u64, OpenRequest>,
    /// Open requests in the order of their starts; some may have ended.
    pub(super) order: VecDeque<u64>,
    /// Requests that end if nothing more is sent, and when something was, the oldest first.
    pub(super) held: VecDeque<(u64, u64)>,
    /// Requests that were known by their sockets.
    pub(super) connections: u64,
    /// Phases in them, open and ended ones.
    pub(super) kept: usize,
    /// Phases in them that are not kept and have not ended.
    pub(super) left_out: u64,
    pub(super) cut: Cut,
    /// By process: its main thread if it ended before others, with its last snapshot and name.
    pub(super) leaders: Table<u32, (ThreadId, Snapshot, Untrusted)>,
    pub(super) helpers: Processes,
    pub(super) waits: Waits,
    pub(super) pasts: Pasts,
    pub(super) early: Early,
    pub(super) queues: Queues,
    pub(super) unended: Unended,
    /// I/Os of threads that are gone, the first to go first.
    pub(super) gone: VecDeque<(ThreadId, Ios)>,
    pub(super) names: Names,
    pub(super) turns: Turns,
    /// Phases and messages of each source.
    pub sources: Sources,
    /// Counts of what found no partner.
    pub losses: PairingLosses,
    pub(super) outputs: Vec<Output>,
}

/// An edge, taken apart.
pub(super) struct Edge<'a> {
    pub(super) record: &'a EdgeRecord,
    pub(super) thread: ThreadId,
    pub(super) instance: u16,
    pub(super) now: Snapshot,
}

impl Edge<'_> {
    /// The token of the phase's root.
    pub(super) fn root(&self) -> u64 {
        self.record.token >> TOKEN_CHILD_BITS << TOKEN_CHILD_BITS
    }

    pub(super) fn key(&self, token: u64) -> PhaseKey {
        PhaseKey { tgid: self.thread.tgid, instance: self.instance, token }
    }
}

impl Pairing {
    /// Pairing for the run with this ID.
    pub fn new(run_id: [u8; 16]) -> Self {
        Self::within(Limits::default(), run_id)
    }

    /// The same, with other limits.
    pub fn within(limits: Limits, run_id: [u8; 16]) -> Self {
        Self {
            limits,
            ids: IdSource::new(run_id),
            next_id: 1,
            threads: Threads::default(),
            open: Table::default(),
            suspended: BTreeSet::new(),
            beside: 0,
            keys: Table::default(),
            requests: Table::default(),
            order: VecDeque::new(),
            held: VecDeque::new(),
            connections: 0,
            kept: 0,
            left_out: 0,
            cut: Cut::default(),
            leaders: Table::default(),
            helpers: Processes::default(),
            waits: Waits::default(),
            pasts: Pasts::default(),
            early: Early::default(),
            queues: Queues::default(),
            unended: Unended::default(),
            gone: VecDeque::new(),
            names: Names::default(),
            turns: Turns::default(),
            sources: Sources::default(),
            losses: PairingLosses::default(),
            outputs: Vec::new(),
        }
    }

    /// Takes all outputs since the last call.
    pub fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether any request is open.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Threads that have not ended, and the slots of their ledgers.
    pub fn live_threads(&self) -> impl Iterator<Item = (ThreadId, u16)> + '_ {
        self.threads.iter().map(|(id, state)| (id, state.slot))
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Takes a record of any kind.
    pub fn record(&mut self, record: &Record) {
        self.expire_held(record.time_ns());
        match record {
            Record::Edge(edge) => self.edge(edge),
            Record::Task(kind, task) => self.task(*kind, task),
            Record::Wait(wait) => {
                self.note_wait(wait);
                self.wait(wait);
            }
            Record::Io(io) => self.io(io),
            Record::Queue(queue) => self.queue(queue),
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
        let state = self.threads.meet(thread, record.ledger.slot);
        let number = (record.operation >> 32) as u32;
        let is_numbered = instance != KERNEL_INSTANCE || number != UNNUMBERED;
        match if is_numbered { state.edge(instance, number, record.left_out) } else { Sequence::Next } {
            Sequence::Next => {}
            Sequence::Before(edges) => self.losses.edges_before += edges,
            Sequence::Lost(edges) => {
                self.losses.edges_lost += edges;
                state.lost += edges;
                // Ends of phases that are not kept may be among them.
                let left_out = std::mem::take(state.left_out_mut());
                if let Some(root) = state.stack.top().map(|top| top.root) {
                    self.forget_left_out(root, left_out);
                }
                self.doubt(thread);
            }
        }
        match Operation::from_number(record.operation as u8) {
            Some(operation @ (Operation::End | Operation::Leave | Operation::Enter))
                if self.is_alone(&edge, operation) => {}
            Some(Operation::Begin) => self.begin(&edge, false),
            Some(Operation::Request) => self.begin(&edge, true),
            Some(Operation::End) if Self::may_go_on(&edge) => self.sent(&edge),
            Some(Operation::End) if self.is_gone(&edge) => {}
            Some(Operation::End) => {
                self.note_none(&edge);
                self.end(&edge);
            }
            Some(Operation::Leave) => self.leave(&edge),
            Some(Operation::Enter) => self.enter(&edge),
            Some(Operation::Context) => self.context(&edge),
            Some(Operation::Identity) => self.identity(&edge),
            Some(Operation::Mark) => self.mark(&edge),
            Some(Operation::Rename) => self.rename(&edge),
            Some(Operation::Tell) => self.tell(&edge),
            None => self.losses.unknown_edges += 1,
        }
        self.place_behind_edge(thread);
        self.forget_displaced(record.header.time_ns);
    }

    /// The phase that an edge means; token 0 is the thread's innermost one. None if that one is not kept.
    pub(super) fn target(&self, edge: &Edge<'_>) -> Option<u64> {
        if edge.record.token != 0 {
            return self.keys.get(&edge.key(edge.record.token)).copied();
        }
        self.innermost(edge.thread).filter(|_| !self.is_inside_left_out(edge.thread))
    }

    /// Ends a phase at an edge of any thread. What began inside it and is still open on its thread has lost
    /// its own end: phases nest.
    pub(super) fn end_at(&mut self, id: u64, edge: &Edge<'_>, ending: Ending) {
        self.claim_beside(id, edge);
        for inner in self.inside(id) {
            self.close(inner, &self.snapshot_for(inner, edge), Ending::Lost);
        }
        let parent = self.open.get(&id).and_then(|open| open.phase.parent);
        self.close(id, &self.snapshot_for(id, edge), ending);
        self.outlasted(parent, edge);
    }

    /// The snapshot that ends a phase's segment: the edge's, if it comes from the phase's thread. A phase
    /// that another thread ends, without leave and enter, has no accounts since its segment began.
    pub(super) fn snapshot_for(&self, id: u64, edge: &Edge<'_>) -> Snapshot {
        match self.open.get(&id).map(|open| open.place) {
            Some(Place::On(thread, begin)) if thread != edge.thread => {
                Snapshot { time_ns: edge.now.time_ns, ..begin }
            }
            _ => edge.now,
        }
    }

    /// Takes a phase from the thread that it is on; `now` is a snapshot of that thread, if there is one.
    pub(super) fn unstack(&mut self, id: u64, is_over: bool, now: Option<&Snapshot>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let Place::On(thread, _) = open.place else {
            self.suspended.remove(&(open.key.tgid, id));
            return;
        };
        if let Some(now) = now {
            self.note_turn(thread, now.time_ns);
        }
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(state) = self.threads.get_mut(thread) else { return };
        let Some(entry) = state.stack.remove(open.stands, id) else { return };
        state.comes_out(now);
        open.phase.edges_lost += state.lost - entry.lost_before;
        if let Some(ios) = &entry.ios {
            open.phase.counts.add(ios);
        }
        // Phases within it that are not kept have ended with it, unless it was left and continues later.
        if is_over {
            self.forget_left_out(entry.root, entry.left_out);
        }
        if let Some(now) = now {
            self.note_innermost(thread, now.time_ns);
        }
        self.note_thread(thread);
    }

    fn mark(&mut self, edge: &Edge<'_>) {
        let source = Source::and_length(edge.record.arguments[1]).0;
        let (name, _) = self.name(edge, source);
        let phase = self.innermost(edge.thread);
        let time_ns = edge.now.time_ns;
        self.outputs.push(Output::Mark(Mark { thread: edge.thread, name, time_ns, phase }));
    }

    /// Ends a phase at a snapshot, and its request if that was the last open one of it.
    pub(super) fn close(&mut self, id: u64, now: &Snapshot, ending: Ending) {
        if self.is_held(id) {
            return self.finish_held(id);
        }
        self.note_segment(id, now);
        self.unstack(id, true, Some(now));
        let Some(mut open) = self.open.remove(&id) else { return };
        open.settle(now);
        self.retire(open, ending);
    }

    pub(super) fn retire(&mut self, mut open: Box<OpenPhase>, ending: Ending) {
        let waiting = std::mem::take(&mut open.beside);
        self.end_beside(open.phase.id, &waiting);
        if self.keys.get(&open.key) == Some(&open.phase.id) {
            self.keys.remove(&open.key);
        }
        if ending != Ending::Ended {
            self.losses.unended_phases += 1;
        }
        if let Some(around) = open.phase.parent.and_then(|parent| self.open.get_mut(&parent)) {
            around.children -= 1;
        }
        self.list_answered(open.phase.parent);
        let (root, tgid, was_none) = (open.root, open.key.tgid, open.was_none);
        open.finish(ending);
        // Activity after the last send is not counted.
        open.phase.helpers = match (&open.held, open.children) {
            (Some(held), 0) => held.helpers(),
            _ => helped(&self.helpers, &self.waits, &open),
        };
        self.landed(tgid, open.phase.id);
        let Some(request) = self.requests.get_mut(&root) else { return };
        request.add(open.phase);
        request.open -= 1;
        if request.open == 0
            && let Some(request) = self.requests.remove(&root)
        {
            self.kept -= request.phases();
            self.left_out -= request.left_out;
            let request = request.finish(&self.ids);
            if was_none
                && request.phases[1..].iter().all(|phase| phase.kind == super::values::PhaseKind::Queue)
            {
                self.sources.was_none(request.root().source);
            } else {
                self.note_unended(&request);
                self.outputs.push(Output::Request(request));
            }
        }
    }

    pub(super) fn abandon(&mut self, id: u64, time_ns: u64, ending: Ending) {
        if self.is_held(id) {
            return self.finish_held(id);
        }
        self.place_early_in(id, u64::MAX);
        let place = self.open.get(&id).map(|open| open.place);
        self.unstack(id, true, None);
        if let Some(Place::On(thread, _)) = place {
            self.note_innermost(thread, time_ns);
        }
        let Some(mut open) = self.open.remove(&id) else { return };
        open.abandon(time_ns);
        self.retire(open, ending);
    }
}
