//! Phases beyond the limits. Part of [`Pairing`].
//!
//! A phase beyond a limit is not kept: its time stays that of the phase around it, so that all accounts still
//! add up, and its end is distinguished from ends without a start. Beyond the limit of requests the oldest is
//! cut off: a program that forgets to end requests would otherwise hide all later ones. Both are counted.

use guestscope_contract::TOKEN_CHILD_BITS;

use super::{
    key::PhaseKey,
    limits::steps,
    open::{OpenPhase, OpenRequest},
    pairing::{Edge, Pairing},
    thread_id::ThreadId,
    values::Ending,
};

impl Pairing {
    /// Whether a phase that begins within this one, the innermost of its thread, or within none, is kept.
    pub(super) fn has_room_within(&self, parent: Option<u64>, edge: &Edge<'_>) -> bool {
        if edge.record.token != edge.root() && self.cut.has(edge.key(edge.root())) {
            return false;
        }
        if self.is_inside_left_out(edge.thread) {
            return false;
        }
        if self.left_out > 0 {
            // Its thread may be inside a phase that is not kept and that began on another thread.
            let innermost = self.threads.get(edge.thread).and_then(|state| state.stack.top());
            let root = self.root_of(edge.record.token, edge);
            let is_elsewhere = root.filter(|root| innermost.is_none_or(|top| top.root != *root));
            if is_elsewhere.is_some_and(|root| self.has_left_out(root)) {
                return false;
            }
        }
        let Some(open) = parent.and_then(|parent| self.open.get(&parent)) else { return true };
        let phases = self.requests.get(&open.root).map_or(0, OpenRequest::phases);
        phases < self.limits.phases_per_request
            && open.depth < self.limits.depth
            && self.kept < self.limits.phases
    }

    /// A phase is not kept.
    pub(super) fn leave_out(&mut self, edge: &Edge<'_>) {
        self.losses.phases_left_out += 1;
        let Some(state) = self.threads.get_mut(edge.thread) else { return };
        *state.left_out_mut() += 1;
        let innermost = state.stack.top().map(|top| top.root);
        let is_of_cut = self.cut.has(edge.key(edge.root()));
        let root = self.root_of(edge.record.token, edge).or(innermost.filter(|_| !is_of_cut));
        if let Some(request) = root.and_then(|root| self.requests.get_mut(&root)) {
            request.left_out += 1;
            self.left_out += 1;
        }
    }

    /// Whether the innermost phase of the thread is one that is not kept.
    pub(super) fn is_inside_left_out(&self, thread: ThreadId) -> bool {
        self.threads.get(thread).is_some_and(|state| state.left_out() > 0)
    }

    /// Whether a token that is not known may be that of a phase that is not kept.
    pub(super) fn is_of_left_out(&self, token: u64, edge: &Edge<'_>) -> bool {
        if token != 0 && self.cut.has(edge.key(token >> TOKEN_CHILD_BITS << TOKEN_CHILD_BITS)) {
            return true;
        }
        if token == 0 {
            return self.is_inside_left_out(edge.thread);
        }
        self.root_of(token, edge).is_some_and(|root| self.has_left_out(root))
    }

    /// A phase that is not kept ends. False if there is none.
    pub(super) fn end_left_out(&mut self, token: u64, edge: &Edge<'_>) -> bool {
        if !self.is_of_left_out(token, edge) {
            return false;
        }
        if let Some(state) = self.threads.get_mut(edge.thread) {
            let left_out = state.left_out_mut();
            *left_out = left_out.saturating_sub(1);
        }
        // The request of token 0 is unknown: that request counts the phase as left out until it is over.
        if let Some(root) = self.root_of(token, edge) {
            self.forget_left_out(root, 1);
        }
        true
    }

    /// A phase that is not kept leaves its thread, or goes on there. False if there is none.
    pub(super) fn move_left_out(&mut self, edge: &Edge<'_>, is_here: bool) -> bool {
        if edge.record.token == 0 || !self.is_of_left_out(edge.record.token, edge) {
            return false;
        }
        if let Some(state) = self.threads.get_mut(edge.thread) {
            let left_out = state.left_out_mut();
            *left_out = if is_here { *left_out + 1 } else { left_out.saturating_sub(1) };
        }
        true
    }

    /// A request within a phase is not kept, nor what is within it.
    pub(super) fn is_left_out(&mut self, key: PhaseKey) {
        self.cut.add(key);
    }

    /// Subtracts phases of a request that were not kept and have ended, or are forgotten.
    pub(super) fn forget_left_out(&mut self, root: u64, phases: u64) {
        if let Some(request) = self.requests.get_mut(&root) {
            let phases = phases.min(request.left_out);
            request.left_out -= phases;
            self.left_out -= phases;
        }
    }

    /// A request has begun with the key of one that was cut off: tokens are reused.
    pub(super) fn is_new(&mut self, key: PhaseKey) {
        if self.cut.has(key) {
            self.cut.known.remove(&key);
        }
    }

    fn has_left_out(&self, root: u64) -> bool {
        self.requests.get(&root).is_some_and(|request| request.left_out > 0)
    }

    /// The request whose root has this token.
    fn root_of(&self, token: u64, edge: &Edge<'_>) -> Option<u64> {
        let root = token >> TOKEN_CHILD_BITS << TOKEN_CHILD_BITS;
        if root == 0 || root == token {
            return None;
        }
        Some(self.open.get(self.keys.get(&edge.key(root))?)?.root)
    }

    /// Cuts requests off, the oldest first, until one more has room.
    pub(super) fn make_room(&mut self, edge: &Edge<'_>) {
        while self.requests.len() >= self.limits.open_requests || self.kept >= self.limits.phases {
            // A request that seems to be over is not cut.
            if self.finish_oldest_held() {
                continue;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            let Some(request) = self.requests.get(&oldest) else { continue };
            self.losses.requests_cut += 1;
            if let Some(open) = self.open.get(&oldest) {
                self.cut.add(open.key);
            }
            for id in request.begun() {
                steps::add(1);
                self.close(id, &self.snapshot_for(id, edge), Ending::Lost);
            }
        }
    }

    /// A request has begun.
    pub(super) fn note_order(&mut self, root: u64) {
        self.order.push_back(root);
        if self.order.len() > 2 * self.requests.len() + 64 {
            steps::add(self.order.len());
            self.order.retain(|root| self.requests.contains_key(root));
        }
    }

    /// Open phases on a thread, the innermost first.
    pub(super) fn open_at(&self, thread: ThreadId) -> Vec<u64> {
        let stack = self.threads.get(thread).map(|state| state.stack.downward());
        in_order(stack.into_iter().flatten().map(|entry| entry.id).collect())
    }

    /// Open phases of a process for which `matches` holds.
    pub(super) fn open_in(&self, tgid: u32, matches: impl Fn(&OpenPhase) -> bool) -> Vec<u64> {
        let threads = self.threads.of_process(tgid).filter_map(|thread| self.threads.get(thread));
        let on_threads = threads.flat_map(|state| state.stack.downward()).map(|entry| entry.id);
        let suspended = self.suspended.range((tgid, 0)..=(tgid, u64::MAX)).map(|(_, id)| *id);
        let is_wanted = |id: &u64| self.open.get(id).is_some_and(|open| matches(open));
        in_order(on_threads.chain(suspended).inspect(|_| steps::add(1)).filter(is_wanted).collect())
    }

    /// All open phases.
    pub(super) fn all_open(&self) -> Vec<u64> {
        in_order(self.open.keys().copied().collect())
    }
}

/// The innermost first, so that requests come out in one order, unlike a map's.
fn in_order(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}
