//! Bounded queue between the pump and the export thread, with counters of what became of every span.
//!
//! Offering takes one short lock and at most one wake-up of the thread; it never waits for the network. When
//! the queue is half full the thread moves the oldest requests to the spill file. If requests come faster,
//! offering waits for it, so that a burst larger than the queue goes to the disk; for a stuck disk it waits
//! only part of the time ([`Patience`]), then the newest request is dropped and counted. Nothing here
//! converts or sends.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::sync::Notify;

use super::{Limits, LiveVerdict, keep::Names, patience::Patience, spans::Trace, waits::Chosen};
use crate::phase::{Phase, Request};

/// Span counters. `offered == pending + sent + spilled + dropped`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    /// Offered by the pump.
    pub(super) offered: u64,
    /// Taken by the collector, including rejected ones.
    pub(super) sent: u64,
    /// Outermost spans taken by the collector.
    pub(super) traces_sent: u64,
    /// Part of `sent`: rejected, by the collector's partial success.
    pub(super) rejected: u64,
    /// In the run folder now.
    pub(super) spilled: u64,
    /// Part of `spilled`: refused for good, in a file of their own.
    pub(super) refused: u64,
    /// Lost.
    pub(super) dropped: u64,
}

impl Books {
    /// Offered, and not yet sent, spilled or dropped.
    pub(super) fn pending(&self) -> u64 {
        self.offered.saturating_sub(self.sent + self.spilled + self.dropped)
    }
}

/// A request in the queue.
struct Waiting {
    request: Arc<Request>,
    waits: Chosen,
    verdict: LiveVerdict,
    wall_offset_ns: i64,
    bytes: usize,
    since: Instant,
}

struct State {
    queue: VecDeque<Waiting>,
    spans: usize,
    bytes: usize,
    books: Books,
    errors: Errors,
    names: Names,
    finish_by: Option<Instant>,
    closed: bool,
    /// An offering thread waits for room.
    waited_for: bool,
    /// The disk took nothing at the last attempt: waiting for it is no use.
    stuck: bool,
    patience: Patience,
}

impl State {
    fn new(patience: Patience) -> Self {
        Self {
            queue: VecDeque::new(),
            spans: 0,
            bytes: 0,
            books: Books::default(),
            errors: Errors::default(),
            names: Names::default(),
            finish_by: None,
            closed: false,
            waited_for: false,
            stuck: false,
            patience,
        }
    }
}

/// Last errors by kind, without credentials.
#[derive(Clone, Debug, Default)]
struct Errors {
    /// Why the collector cannot be reached; cleared when it can.
    away: Option<String>,
    /// Why spans did not arrive although it can be reached.
    refused: Option<String>,
    /// Why spans could not be kept.
    unkept: Option<String>,
}

impl Errors {
    fn in_one_line(&self) -> Option<String> {
        let Self { away, refused, unkept } = self;
        let errors: Vec<&str> = [away, refused, unkept].into_iter().flatten().map(String::as_str).collect();
        (!errors.is_empty()).then(|| errors.join("; "))
    }
}

/// When the queue is due to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Now.
    Now,
    /// When the oldest request has lingered long enough.
    At(Instant),
    /// The queue is empty.
    Never,
}

/// Queue shared by offering threads and the sending thread.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the thread.
    pub(super) changed: Notify,
    /// Wakes threads that wait for room.
    room: Condvar,
    /// Offering threads have no time to wait.
    hurried: AtomicBool,
    limits: Limits,
}

impl Waiting {
    /// Spans of phases, waits and work of GPUs.
    fn spans(&self) -> usize {
        self.request.phases.len() + self.waits.spans()
    }
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(limits: Limits) -> Self {
        let state = Mutex::new(State::new(Patience::new(limits.patience)));
        let (changed, room) = (Notify::new(), Condvar::new());
        Self { state, changed, room, hurried: AtomicBool::new(false), limits }
    }

    /// A panic inside the short critical sections below leaves valid numbers: go on with them.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request with its waits, or counts it as dropped; waits for room as long as there is patience.
    /// A request larger than the whole queue is taken if the queue is empty.
    pub(super) fn offer(
        &self,
        request: Arc<Request>,
        waits: Chosen,
        verdict: LiveVerdict,
        wall_offset_ns: i64,
    ) {
        if request.phases.is_empty() {
            return;
        }
        let bytes = memory_bytes(&request) + waits.memory_bytes();
        let has_ids = has_ids(&request);
        let waiting = Waiting { request, waits, verdict, wall_offset_ns, bytes, since: Instant::now() };
        let spans = waiting.spans();
        let mut state = self.lock();
        state.books.offered += spans as u64;
        if has_ids && self.is_full(&state, spans, bytes) {
            state = self.wait_for_room(state, spans, bytes);
        }
        let refusal = match &*state {
            State { closed: true, .. } => Some("offered after the end"),
            _ if !has_ids => Some("a request without trace and span ids"),
            state if self.is_full(state, spans, bytes) => Some("the queue is full"),
            _ => None,
        };
        let before = self.wants(&state);
        if let Some(refusal) = refusal {
            state.books.dropped += spans as u64;
            state.errors.refused = Some(refusal.to_owned());
        } else {
            state.spans += spans;
            state.bytes += bytes;
            state.queue.push_back(waiting);
        }
        let wake = refusal.is_some() || self.wants(&state) != before;
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Sets whether offering skips waiting for room.
    pub(super) fn hurry(&self, hurried: bool) {
        self.hurried.store(hurried, Relaxed);
    }

    /// Waits for room, as long as patience lasts.
    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        spans: usize,
        bytes: usize,
    ) -> MutexGuard<'a, State> {
        let mut now = Instant::now();
        // Computed once: patience regained meanwhile is for the next wait.
        let until = now + state.patience.left(now);
        let is_of_use = |state: &State| !(state.closed || state.stuck || self.hurried.load(Relaxed));
        while now < until && is_of_use(&state) && self.is_full(&state, spans, bytes) {
            state.waited_for = true;
            self.changed.notify_one();
            let waited = self.room.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let begun = std::mem::replace(&mut now, Instant::now());
            state.patience.spend(begun, now);
        }
        state.waited_for = false;
        state
    }

    /// The oldest request, on its way to spans.
    pub(super) fn pop(&self) -> Option<Trace> {
        let mut state = self.lock();
        let waiting = state.queue.pop_front()?;
        state.spans -= waiting.spans();
        state.bytes -= waiting.bytes;
        state.stuck = false;
        let waited_for = state.waited_for;
        drop(state);
        if waited_for {
            self.room.notify_all();
        }
        let Waiting { request, waits, verdict, wall_offset_ns, bytes: _, since: _ } = waiting;
        Some(Trace::new(request, waits, verdict, wall_offset_ns))
    }

    /// When to send: at a full batch, when the oldest has lingered, and always once the end has come.
    pub(super) fn due(&self) -> Due {
        let state = self.lock();
        match state.queue.front() {
            None => Due::Never,
            Some(_) if state.finish_by.is_some() || state.waited_for || self.is_due(&state) => Due::Now,
            Some(oldest) => {
                let at = oldest.since + self.limits.linger;
                if at <= Instant::now() { Due::Now } else { Due::At(at) }
            }
        }
    }

    fn is_full(&self, state: &State, spans: usize, bytes: usize) -> bool {
        let Limits { queue_spans, queue_bytes, .. } = self.limits;
        !state.queue.is_empty() && (state.spans + spans > queue_spans || state.bytes + bytes > queue_bytes)
    }

    /// State whose change wakes the thread: an empty queue, a full batch, pressure.
    fn wants(&self, state: &State) -> (bool, bool, bool) {
        (state.queue.is_empty(), self.is_due(state), self.is_pressing(state))
    }

    fn is_due(&self, state: &State) -> bool {
        state.spans >= self.limits.batch_spans
    }

    fn is_pressing(&self, state: &State) -> bool {
        let Limits { queue_spans, queue_bytes, .. } = self.limits;
        let is_waited_for = state.waited_for && !state.queue.is_empty();
        is_waited_for || state.spans > queue_spans / 2 || state.bytes > queue_bytes / 2
    }

    /// More than half full, or too full for what comes: time to move the oldest to the spill file.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.is_pressing(&self.lock())
    }

    /// Changes the counters.
    pub(super) fn book(&self, change: impl FnOnce(&mut Books)) {
        let mut state = self.lock();
        // After closing, pending spans are already counted as dropped.
        if !state.closed {
            change(&mut state.books);
        }
    }

    /// Sets or clears why the collector cannot be reached.
    pub(super) fn away(&self, error: Option<String>) {
        self.lock().errors.away = error;
    }

    /// The counters, why the collector cannot be reached now, and why it last refused spans.
    pub(super) fn reached(&self) -> (Books, Option<String>, Option<String>) {
        let state = self.lock();
        (state.books, state.errors.away.clone(), state.errors.refused.clone())
    }

    /// Sets why spans did not arrive although the collector can be reached.
    pub(super) fn refused(&self, error: String) {
        self.lock().errors.refused = Some(error);
    }

    /// Sets why spans could not be kept.
    pub(super) fn unkept(&self, error: String) {
        self.lock().errors.unkept = Some(error);
    }

    /// The disk takes nothing: no thread waits for it until something has left the queue.
    pub(super) fn stuck(&self) {
        self.lock().stuck = true;
        self.room.notify_all();
    }

    /// The counters and the last error, for people.
    pub(super) fn read(&self) -> (Books, Option<String>) {
        let state = self.lock();
        (state.books, state.errors.in_one_line())
    }

    /// Names of the files with spilled spans.
    pub(super) fn names(&self) -> Names {
        self.lock().names
    }

    /// Renames the files of spilled spans.
    pub(super) fn rename(&self, names: Names) {
        self.lock().names = names;
    }

    /// From now on everything is sent at once; spans not sent by `deadline` are spilled.
    pub(super) fn finish_by(&self, deadline: Instant) {
        self.lock().finish_by = Some(deadline);
        self.changed.notify_one();
    }

    /// The deadline, once the end has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.lock().finish_by
    }

    /// The thread is gone: pending and later spans count as dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        if !state.closed {
            state.books.dropped += state.books.pending();
            state.closed = true;
            state.queue.clear();
        }
        drop(state);
        self.room.notify_all();
    }
}

/// Memory of a request, bytes.
fn memory_bytes(request: &Request) -> usize {
    let texts = |phase: &Phase| phase.name.stored().len() + phase.comm.stored().len();
    request.phases.iter().map(|phase| size_of::<Phase>() + texts(phase)).sum()
}

/// Whether all ids are valid: receivers drop spans without ids silently.
fn has_ids(request: &Request) -> bool {
    let valid = |phase: &Phase| phase.trace.trace_id != [0; 16] && phase.trace.span_id != [0; 8];
    request.phases.iter().all(valid)
}
