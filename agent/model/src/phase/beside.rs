//! A phase with several threads inside at the same time: a request whose event loop has not left it yet when
//! a pool's thread enters it, or that gives work to two threads at once. Part of [`Pairing`].
//!
//! Time is charged to one thread only. The thread that came first owns the phase until it leaves it; then the
//! thread that has waited longest owns it, with its times since it entered, cut to the available time. Until
//! then the time of the others counts as helpers' time, but phases that they begin are inside the phase all
//! the same.

use super::{
    open::{Beside, Place},
    pairing::{Edge, Pairing},
    snapshot::Snapshot,
    stack::Entry,
    thread_id::ThreadId,
};

/// Threads that may wait for one phase: pools have some dozens.
const MOST_BESIDE: usize = 64;
/// The same of all phases together: each takes 0.4 KB.
const MOST_BESIDE_OF_ALL: usize = 8_192;

impl Pairing {
    /// The edge's thread enters a phase that is on another one. False where that has not to wait: the phase
    /// moves.
    pub(super) fn enter_beside(&mut self, id: u64, edge: &Edge<'_>) -> bool {
        if !self.is_elsewhere(id, edge) {
            return false;
        }
        let Some(open) = self.open.get_mut(&id) else { return false };
        if open.beside.iter().any(|beside| beside.thread == edge.thread) {
            return true;
        }
        if open.beside.len() >= MOST_BESIDE || self.beside >= MOST_BESIDE_OF_ALL {
            self.losses.unmatched_ends += 1;
            return true;
        }
        let Some(state) = self.threads.get_mut(edge.thread) else { return false };
        state.beside.push(id);
        open.beside.push(Beside { thread: edge.thread, now: edge.now, place: state.stack.reserve() });
        self.beside += 1;
        true
    }

    /// Whether the phase is on another thread of the process, as far as is known: where edges of that one
    /// were lost, its leave may have been among them.
    pub(super) fn is_elsewhere(&self, id: u64, edge: &Edge<'_>) -> bool {
        let Some(Place::On(holder, _)) = self.open.get(&id).map(|open| open.place) else { return false };
        let is_certain = self.threads.get(holder).is_some_and(|state| state.doubtful == 0);
        holder != edge.thread && holder.tgid == edge.thread.tgid && is_certain
    }

    /// The edge's thread leaves a phase that is on another one, which keeps it. False where that is not so.
    pub(super) fn leave_beside(&mut self, id: u64, edge: &Edge<'_>) -> bool {
        let Some(open) = self.open.get(&id) else { return false };
        if !matches!(open.place, Place::On(holder, _) if holder != edge.thread) {
            return false;
        }
        let found = open.beside.iter().position(|beside| beside.thread == edge.thread);
        found.is_some_and(|at| self.take_beside(id, at).is_some())
    }

    /// The phase was left: it goes on on the thread that has waited longest, if one lives.
    pub(super) fn hand_over(&mut self, id: u64) {
        while let Some(next) = self.take_beside(id, 0) {
            if self.threads.get(next.thread).is_none() {
                continue;
            }
            self.go_on_beside(id, &next);
            self.go_on_within(id, next.thread, &next.now);
            return;
        }
    }

    /// The edge's thread ends a phase that is on another one, and that it had entered: from there on it was
    /// its own. Nothing is known of the other thread's time until then.
    pub(super) fn claim_beside(&mut self, id: u64, edge: &Edge<'_>) {
        let Some(open) = self.open.get(&id) else { return };
        let Place::On(holder, begin) = open.place else { return };
        if holder == edge.thread {
            return;
        }
        // The holder is still inside: its leave will come after the end.
        let found = open.beside.iter().position(|beside| beside.thread == edge.thread);
        if let Some(state) = self.threads.get_mut(holder) {
            state.strays += 1;
        }
        let Some(next) = found.and_then(|at| self.take_beside(id, at)) else { return };
        let until = Snapshot { time_ns: next.now.time_ns.max(begin.time_ns), ..begin };
        self.note_segment(id, &until);
        self.unstack(id, false, Some(&until));
        if let Some(open) = self.open.get_mut(&id) {
            open.settle(&until);
        }
        self.go_on_beside(id, &next);
    }

    fn go_on_beside(&mut self, id: u64, next: &Beside) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.go_on(next.thread, &next.now);
        open.stands = next.place;
        let tgid = open.key.tgid;
        let Place::On(thread, begin) = open.place else { return };
        let Some(state) = self.threads.get_mut(thread) else { return };
        state.within.begins(&begin);
        let lost_before = state.lost;
        let entry =
            Entry { id, root: open.root, depth: open.depth, instance: open.key.instance, ..Entry::default() };
        // Its waits are of the phase from when it entered: most of a long one may lie behind the other's
        // leave.
        state.stack.insert(next.place, Entry { begin_ns: next.now.time_ns, lost_before, ..entry });
        self.suspended.remove(&(tgid, id));
        self.note_thread(thread);
        self.note_suspended(id);
    }

    /// Removes a waiting thread.
    fn take_beside(&mut self, id: u64, at: usize) -> Option<Beside> {
        let open = self.open.get_mut(&id)?;
        if at >= open.beside.len() {
            return None;
        }
        let taken = open.beside.remove(at);
        self.beside = self.beside.saturating_sub(1);
        self.forget_beside(id, taken.thread);
        Some(taken)
    }

    fn forget_beside(&mut self, id: u64, thread: ThreadId) {
        if let Some(state) = self.threads.get_mut(thread) {
            state.beside.retain(|beside| *beside != id);
        }
    }

    /// A phase is over: those that waited for it will leave it yet.
    pub(super) fn end_beside(&mut self, id: u64, waiting: &[Beside]) {
        self.beside = self.beside.saturating_sub(waiting.len());
        for beside in waiting {
            self.forget_beside(id, beside.thread);
            if let Some(state) = self.threads.get_mut(beside.thread) {
                state.strays += 1;
            }
        }
    }

    /// Whether the edge leaves what has ended while its thread was inside.
    pub(super) fn is_stray(&mut self, edge: &Edge<'_>) -> bool {
        let Some(state) = self.threads.get_mut(edge.thread) else { return false };
        let is_stray = state.strays > 0;
        state.strays = state.strays.saturating_sub(1);
        is_stray
    }

    /// The phase that one which begins here lies in: the thread's innermost, or one that it is inside beside
    /// another thread.
    pub(super) fn parent_of(&self, edge: &Edge<'_>) -> Option<u64> {
        let state = self.threads.get(edge.thread)?;
        let top = state.stack.top();
        let Some(beside) = state.beside.last().copied() else { return top.map(|top| top.id) };
        let Some(top) = top else { return Some(beside) };
        let is_of_it = self.keys.get(&edge.key(edge.root())) == Some(&beside);
        let root = self.open.get(&beside).map(|open| open.root);
        Some(if is_of_it && root != Some(top.root) { beside } else { top.id })
    }
}
