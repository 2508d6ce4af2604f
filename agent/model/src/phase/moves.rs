//! Phases that leave their thread and go on, on the same one or another. Part of [`Pairing`].

use guestscope_contract::{KERNEL_INSTANCE, WITH_INNER};

use super::{
    occupied::{self, Piece},
    open::{OpenPhase, Place},
    pairing::{Edge, Pairing},
    snapshot::Snapshot,
    thread_id::ThreadId,
};

impl Pairing {
    pub(super) fn leave(&mut self, edge: &Edge<'_>) {
        let Some(id) = self.target(edge) else {
            let is_known = self.move_left_out(edge, false) || self.is_stray(edge);
            self.losses.unmatched_ends += u64::from(!is_known);
            return;
        };
        if self.leave_beside(id, edge) || self.is_held(id) {
            return;
        }
        if edge.instance == KERNEL_INSTANCE && self.is_elsewhere(id, edge) {
            // The phase that it left has ended on another thread since, and the next one with that token has
            // begun: nothing is lost.
            let _ = self.is_stray(edge);
            return;
        }
        // Phases open inside it that were not left separately cannot continue without it.
        let inner = self.inside(id);
        if edge.instance == KERNEL_INSTANCE
            && let Some(open) = self.open.get_mut(&id)
        {
            open.left_with = inner.iter().rev().copied().collect();
        }
        for id in inner.into_iter().chain([id]) {
            let now = self.snapshot_for(id, edge);
            self.note_segment(id, &now);
            self.unstack(id, false, Some(&now));
            if let Some(open) = self.open.get_mut(&id) {
                let was_on = open.place;
                open.settle(&now);
                if let (Place::On(thread, _), Place::Suspended(away)) = (was_on, &mut open.place)
                    && thread == edge.thread
                {
                    away.left = self.threads.get(thread).map(|state| (thread, state.outside_ns(&now)));
                }
                self.suspended.insert((open.key.tgid, id));
            }
            self.note_suspended(id);
            self.hand_over(id);
        }
    }

    pub(super) fn enter(&mut self, edge: &Edge<'_>) {
        let Some(id) = self.target(edge).filter(|_| edge.record.token != 0) else {
            self.losses.unmatched_ends += u64::from(!self.move_left_out(edge, true));
            return;
        };
        if self.enter_beside(id, edge) || self.is_held(id) {
            return;
        }
        let now = self.snapshot_for(id, edge);
        self.go_on(id, &now, edge.thread, &edge.now);
        if edge.instance == KERNEL_INSTANCE && edge.record.arguments[0] == WITH_INNER {
            self.go_on_within(id, edge.thread, &edge.now);
        }
    }

    /// Phases that were left together with a phase, and are on no thread yet, continue with it.
    pub(super) fn go_on_within(&mut self, id: u64, thread: ThreadId, now: &Snapshot) {
        let left = self.open.get_mut(&id).map(|open| std::mem::take(&mut open.left_with));
        for inner in left.unwrap_or_default() {
            if matches!(self.open.get(&inner).map(|open| open.place), Some(Place::Suspended(_))) {
                self.go_on(inner, now, thread, now);
            }
        }
    }

    /// A phase goes on, on a thread; `until` ends the segment that it is in, or its suspension.
    fn go_on(&mut self, id: u64, until: &Snapshot, thread: ThreadId, now: &Snapshot) {
        // Entered twice: that segment ends here.
        self.note_segment(id, until);
        self.unstack(id, false, Some(until));
        self.note_turn(thread, now.time_ns);
        let Some(mut open) = self.open.remove(&id) else { return };
        self.resumed(&open, until.time_ns);
        self.note_holders(&mut open, (thread, now));
        open.settle(until);
        open.go_on(thread, now);
        self.open.insert(id, open);
        self.stack(id);
        self.note_suspended(id);
    }

    /// Another phase is the innermost one of a thread from then on.
    pub(super) fn note_turn(&mut self, thread: ThreadId, now_ns: u64) {
        let threads = self.threads.len();
        let Some(state) = self.threads.get_mut(thread) else { return };
        let Some(begin_ns) = state.occupied.turn(now_ns) else { return };
        let of_process = (thread.tgid, 0)..=(thread.tgid, u64::MAX);
        if self.suspended.range(of_process).next().is_none() {
            return;
        }
        let top = state.stack.top().and_then(|top| Some((top.root, &self.open.get(&top.id)?.phase.name)));
        if let Some((root, name)) = top {
            let request = self.open.get(&root).map_or(0, |open| open.phase.request);
            state
                .occupied
                .keep(Piece { begin_ns, end_ns: now_ns, root, request, name: name.clone() }, threads);
        }
    }

    /// A suspended phase continues on this thread: notes what the thread did meanwhile. A phase around others
    /// was suspended with them, and they have the holders.
    fn note_holders(&self, open: &mut OpenPhase, (thread, now): (ThreadId, &Snapshot)) {
        let (Place::Suspended(away), Some(state)) = (open.place, self.threads.get(thread)) else { return };
        let mut holders = state.occupied.by_others(open.root, (away.since_ns, now.time_ns));
        if let Some((_, before_ns)) = away.left.filter(|(left, _)| *left == thread) {
            holders.extend(occupied::outside(before_ns, state.outside_ns(now)));
        }
        let held_ns = holders.iter().map(|holder| holder.ns).fold(0, u64::saturating_add);
        let most_ns = now.time_ns.saturating_sub(away.since_ns);
        let sum_ns = &mut open.phase.counts.suspended_held_ns;
        *sum_ns = sum_ns.saturating_add(held_ns.min(most_ns));
        if open.children == 0 {
            occupied::keep_longest(&mut holders);
            for holder in holders {
                occupied::add(&mut open.holders, holder);
            }
            occupied::keep_longest(&mut open.holders);
        }
    }
}
