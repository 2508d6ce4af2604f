//! Open phases: the running sums of each, and its request until all of that has ended.
//!
//! A phase is made of segments, each on one thread, between begin or enter and leave or end. Each segment is
//! the difference of two snapshots of that thread's ledger; the time between segments is on no thread.

use guestscope_contract::Source;

use super::{
    Counts,
    accounts::Accounts,
    helped::Helpers,
    helper_waits::Waits,
    helpers::{Processes, Share},
    ids::IdSource,
    key::PhaseKey,
    occupied::{self, Away},
    snapshot::Snapshot,
    table::Table,
    thread_id::ThreadId,
    values::{Ending, Holder, Phase, PhaseKind, Request, TraceIds},
};
use crate::untrusted::Untrusted;

/// A thread that has entered a phase while that was on another one.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) thread: ThreadId,
    /// Snapshot when the thread entered.
    pub(super) now: Snapshot,
    /// Place of the phase on that thread's stack.
    pub(super) place: u64,
}

/// State of a request at its last send.
#[derive(Debug)]
pub(crate) struct Held {
    /// The thread that sent.
    pub(super) thread: ThreadId,
    pub(super) now: Snapshot,
    pub(super) helpers: Helpers,
}

impl Held {
    /// Helpers' activity up to then.
    pub(super) fn helpers(&self) -> Helpers {
        self.helpers
    }
}

/// Latest ended phases that are searched for one.
const LATELY: usize = 1_024;

// The memory that `limits` stand for.
const _: () = assert!(size_of::<OpenPhase>() <= 1_530 && size_of::<Phase>() <= 830);

/// Where an open phase is now.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are on a thread, and a box would be made at every edge")]
pub(crate) enum Place {
    /// On a thread, since this snapshot.
    On(ThreadId, Snapshot),
    /// On no thread.
    Suspended(Away),
}

/// A phase that has begun.
#[derive(Debug)]
pub(crate) struct OpenPhase {
    pub(crate) root: u64,
    pub(crate) place: Place,
    /// Place on the stack of its thread.
    pub(crate) stands: u64,
    /// Phases around it.
    pub(crate) depth: u32,
    /// Phases right within it that are open.
    pub(crate) children: u32,
    pub(crate) key: PhaseKey,
    /// Helpers' share when it began.
    pub(crate) share: Share,
    /// Threads that have entered it while it was on another one, in the order of their coming.
    pub(crate) beside: Vec<Beside>,
    /// Phases open within it when it was left, the outermost first: kept where all of them continue by one
    /// edge.
    pub(crate) left_with: Vec<u64>,
    /// Its state at the last send of its connection.
    pub(crate) held: Option<Box<Held>>,
    /// Whether it is in the list of requests that end if nothing more is sent.
    pub(crate) is_listed: bool,
    /// Whether it has turned out to be no request.
    pub(crate) was_none: bool,
    /// What its threads did while it was suspended, the longest.
    pub(crate) holders: Vec<Holder>,
    pub(crate) phase: Phase,
}

impl OpenPhase {
    /// A phase that begins, at this depth of that request.
    #[expect(clippy::large_types_passed_by_value, reason = "it is kept")]
    pub(crate) fn new(
        place: Place,
        depth: u32,
        root: u64,
        key: PhaseKey,
        share: Share,
        phase: Phase,
    ) -> Self {
        Self {
            root,
            place,
            stands: 0,
            depth,
            children: 0,
            key,
            share,
            beside: Vec::new(),
            left_with: Vec::new(),
            held: None,
            is_listed: false,
            was_none: false,
            holders: Vec::new(),
            phase,
        }
    }

    /// Ends the segment, or the suspension, at a snapshot of the phase's thread (or of any thread, if it is
    /// on none). The time is added; the phase is suspended from then on.
    pub(crate) fn settle(&mut self, now: &Snapshot) {
        match self.place {
            Place::On(_, begin) => {
                let (mut accounts, counts) = now.since(&begin);
                // Time that the accounts lack (a torn ledger) counts as suspended, and they are cut to the
                // interval: the sum stays the wall time.
                self.phase.suspended_ns += accounts.fit(now.time_ns.saturating_sub(begin.time_ns));
                self.phase.accounts.add(&accounts);
                self.phase.counts.add(&counts);
            }
            Place::Suspended(away) => {
                self.phase.suspended_ns += now.time_ns.saturating_sub(away.since_ns);
            }
        }
        self.place = Place::Suspended(Away::since(now.time_ns.max(self.last_ns())));
    }

    /// Goes on, on a thread at this snapshot of it. Not before the last segment ended: the clocks of two CPUs
    /// may disagree, and no time counts twice.
    pub(crate) fn go_on(&mut self, thread: ThreadId, now: &Snapshot) {
        let time_ns = now.time_ns.max(self.last_ns());
        self.place = Place::On(thread, Snapshot { time_ns, ..*now });
    }

    /// Ends it where its thread is no longer known: the rest of its time is on no thread.
    pub(crate) fn abandon(&mut self, time_ns: u64) {
        let last_ns = self.last_ns();
        self.phase.suspended_ns += time_ns.saturating_sub(last_ns);
        self.place = Place::Suspended(Away::since(time_ns.max(last_ns)));
    }

    fn last_ns(&self) -> u64 {
        match self.place {
            Place::On(_, begin) => begin.time_ns,
            Place::Suspended(away) => away.since_ns,
        }
    }

    /// Finishes it. Its duration is the sum of its times, so that both agree to the nanosecond.
    pub(crate) fn finish(&mut self, ending: Ending) {
        occupied::keep_longest(&mut self.holders);
        self.phase.holder = self.holders.drain(..).next().map(Box::new);
        self.phase.duration_ns = self.phase.accounts.total_ns() + self.phase.suspended_ns;
        self.phase.ending = ending;
    }
}

/// A request whose phases have not all ended.
#[derive(Debug, Default)]
pub(crate) struct OpenRequest {
    /// Number of its phases that are still open.
    pub(crate) open: usize,
    /// Phases that began, in the order of their starts; some may have ended.
    begun: Vec<u64>,
    /// Phases within it that are not kept and have not ended.
    pub(crate) left_out: u64,
    done: Vec<Phase>,
    /// The program's own trace id.
    trace_id: Option<[u8; 16]>,
    /// The program's own span around the request.
    remote_parent: Option<[u8; 8]>,
    /// The same around phases within it.
    parents: Table<u64, [u8; 8]>,
    /// Span ids that the library made, by phase.
    span_ids: Table<u64, [u8; 8]>,
}

impl OpenRequest {
    /// The wire format forbids ids of zeros: such a trace is none, such a parent is no parent.
    pub(crate) fn join(&mut self, trace_id: [u8; 16], parent: [u8; 8]) {
        if trace_id != [0; 16] {
            self.trace_id = Some(trace_id);
            self.remote_parent = (parent != [0; 8]).then_some(parent);
        }
    }

    /// A phase of it is what the program calls this span. Where the request is in no trace, it begins to be
    /// part of this one, below the same span: what is around the program's outermost span is this request
    /// alone.
    pub(crate) fn adopt(&mut self, phase: u64, trace_id: [u8; 16], parent: [u8; 8]) {
        if trace_id == [0; 16] || parent == [0; 8] {
            return;
        }
        if self.trace_id.is_none() {
            self.join(trace_id, parent);
        } else if self.trace_id == Some(trace_id) {
            self.parents.insert(phase, parent);
        }
    }

    pub(crate) fn identify(&mut self, phase: u64, trace_id: [u8; 16], span_id: [u8; 8]) {
        if trace_id != [0; 16] && span_id != [0; 8] {
            self.trace_id = Some(trace_id);
            self.span_ids.insert(phase, span_id);
        }
    }

    /// Whether it has had no phase but the queue, and only its root is open.
    pub(crate) fn is_untouched(&self) -> bool {
        self.open == 1 && self.done.iter().all(|done| done.kind == PhaseKind::Queue)
    }

    /// Adds to a phase of it that has ended. False if it has none of this number.
    pub(crate) fn add_to(&mut self, phase: u64, counts: &Counts) -> bool {
        // It ended recently: the search starts with the last phase.
        let found = self.done.iter_mut().rev().take(LATELY).find(|done| done.id == phase);
        found.map(|done| done.counts.add(counts)).is_some()
    }

    /// A phase of it that has ended.
    pub(crate) fn add(&mut self, phase: Phase) {
        // A vector that doubles takes three times its phases while it grows. Those that are open will come.
        if self.done.len() == self.done.capacity() {
            self.done.reserve_exact(self.open.max(self.done.len() / 4).max(1));
        }
        if self.begun.last() == Some(&phase.id) {
            self.begun.pop();
        }
        self.done.push(phase);
    }

    /// A phase of it has begun.
    pub(crate) fn begin(&mut self, id: u64) {
        self.open += 1;
        self.begun.push(id);
    }

    /// Number of its phases, open and ended ones.
    pub(crate) fn phases(&self) -> usize {
        self.open + self.done.len()
    }

    /// Phases that may be open, the innermost first.
    pub(crate) fn begun(&self) -> Vec<u64> {
        self.begun.iter().rev().copied().collect()
    }

    /// Returns the whole request once all phases have ended: IDs filled in, the outermost phase first.
    pub(crate) fn finish(mut self, ids: &IdSource) -> Request {
        self.done.sort_by_key(|phase| (phase.id != phase.root, phase.start_ns, phase.id));
        let (root, number) = self.done.first().map_or((0, 0), |phase| (phase.root, phase.request));
        let trace_id = self.trace_id.unwrap_or_else(|| ids.trace_id(root));
        let span_id = |phase: u64| self.span_ids.get(&phase).copied().unwrap_or_else(|| ids.span_id(phase));
        for phase in &mut self.done {
            let is_root = phase.id == phase.root;
            let own = if is_root { self.remote_parent } else { self.parents.get(&phase.id).copied() };
            // A nested phase carries the number of its parent, unless the program gave it one of its own.
            if phase.request == 0 {
                phase.request = number;
            }
            phase.trace = TraceIds {
                trace_id,
                span_id: span_id(phase.id),
                parent_span_id: own.or_else(|| phase.parent.map(span_id)),
                parent_is_remote: own.is_some(),
            };
        }
        Request { phases: self.done }
    }
}

/// A phase as it begins.
pub(crate) fn begun(id: u64, kind: PhaseKind, name: Untrusted, thread: ThreadId, start_ns: u64) -> Phase {
    Phase {
        id,
        parent: None,
        root: id,
        kind,
        name,
        name_damaged: false,
        request: 0,
        thread,
        comm: Untrusted::default(),
        start_ns,
        duration_ns: 0,
        suspended_ns: 0,
        accounts: Accounts::default(),
        counts: Counts::default(),
        helpers: Helpers::default(),
        trace: TraceIds::default(),
        ending: Ending::Ended,
        edges_lost: 0,
        pause_ns: 0,
        source: Source::Marker,
        status: None,
        holder: None,
    }
}

/// Helpers' activity during a phase so far, whose duration is already known.
pub(super) fn helped(processes: &Processes, waits: &Waits, open: &OpenPhase) -> Helpers {
    let mut helpers = processes.since(open.key.tgid, &open.share);
    helpers.wait = waits.laid_over(open.key.tgid, &open.phase);
    helpers.partial |= waits.is_partial(open.key.tgid);
    helpers
}
