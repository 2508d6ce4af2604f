//! Requests that are known by their sockets: what is sent may be the last or not, so that each end is one
//! until the next is seen. Part of [`Pairing`].
//!
//! Such a request is on the thread that received it, and on that which sends. Between two sends of one thread
//! it stays there; whose time it is from one thread to another is not known, and it is suspended then. Once
//! something was sent it is in flight no more, unless more comes: its connection may be idle for hours.

use guestscope_contract::{
    KERNEL_INSTANCE, Source,
    connection::{MAY_GO_ON, MAY_GO_ON_ELSEWHERE, WAS_NONE},
};

use super::{
    open::{Held, OpenPhase, Place, helped},
    pairing::{Edge, Pairing},
    values::Ending,
};

/// Time after which a request without a further send is over, ns.
const HELD_NS: u64 = 10_000_000_000;

impl Pairing {
    /// Whether an end may be followed by more of the same request.
    pub(super) fn may_go_on(edge: &Edge<'_>) -> bool {
        let third = edge.record.arguments[2];
        edge.instance == KERNEL_INSTANCE && (third == MAY_GO_ON || third == MAY_GO_ON_ELSEWHERE)
    }

    /// Handles an end that reports that its phase was no request.
    pub(super) fn note_none(&mut self, edge: &Edge<'_>) {
        if edge.instance == KERNEL_INSTANCE
            && edge.record.arguments[2] == WAS_NONE
            && let Some(open) = self.target(edge).and_then(|id| self.open.get_mut(&id))
        {
            open.was_none = true;
        }
    }

    /// Whether a request lies beside what its thread is inside: one thread has many connections, and none is
    /// part of another one's.
    pub(super) fn is_beside(source: Source, around: &OpenPhase) -> bool {
        source == Source::Socket && around.phase.source == Source::Socket
    }

    /// Something was sent. The request ends here unless more is sent.
    pub(super) fn sent(&mut self, edge: &Edge<'_>) {
        let Some(id) = self.target(edge).filter(|_| edge.record.token != 0) else {
            self.losses.unmatched_ends += u64::from(!self.is_of_left_out(edge.record.token, edge));
            return;
        };
        self.hold(id, edge);
    }

    /// A phase marked within a request ended after its last send: then the request ended there, since it was
    /// still being worked on.
    pub(super) fn outlasted(&mut self, parent: Option<u64>, edge: &Edge<'_>) {
        if let Some(id) = parent.filter(|id| self.open.get(id).is_some_and(|open| open.held.is_some())) {
            self.hold(id, edge);
        }
    }

    /// The last phase marked within a request has ended, and the request was answered before: no further edge
    /// may come to end it.
    pub(super) fn list_answered(&mut self, parent: Option<u64>) {
        let Some(open) = parent.and_then(|id| self.open.get_mut(&id)) else { return };
        if let (0, Some(held)) = (open.children, &open.held)
            && !std::mem::replace(&mut open.is_listed, true)
        {
            self.held.push_back((held.now.time_ns, open.phase.id));
        }
    }

    /// Whether a request whose connection has received the next one is still open for what was marked within
    /// it. Its end is seen all the same, as the last of that ends.
    pub(super) fn outlives(&mut self, id: u64) -> bool {
        let Some(open) = self.open.get(&id).filter(|open| open.held.is_some() && open.children > 0) else {
            return false;
        };
        self.keys.remove(&open.key);
        true
    }

    /// Whether the edge reports a closed connection while phases within its request are open: the request
    /// ends with the last of them.
    pub(super) fn is_gone(&mut self, edge: &Edge<'_>) -> bool {
        let found = self.target(edge).filter(|_| edge.instance == KERNEL_INSTANCE && edge.record.token != 0);
        let Some((id, open)) = found.and_then(|id| Some((id, self.open.get(&id)?))) else { return false };
        if open.phase.source != Source::Socket || open.children == 0 {
            return false;
        }
        if open.held.is_none() {
            self.hold(id, edge);
        }
        self.outlives(id)
    }

    /// The request ends at this edge, unless more is sent.
    fn hold(&mut self, id: u64, edge: &Edge<'_>) {
        let is_around = !self.inside(id).is_empty();
        if !self.took_back(id, edge) {
            self.settle_here(id, edge, is_around);
        }
        let tgid = edge.thread.tgid;
        let Some(open) = self.open.get_mut(&id) else { return };
        open.phase.duration_ns = open.phase.accounts.total_ns() + open.phase.suspended_ns;
        let helpers = helped(&self.helpers, &self.waits, open);
        open.held = Some(Box::new(Held { thread: edge.thread, now: edge.now, helpers }));
        if !std::mem::replace(&mut open.is_listed, true) {
            self.held.push_back((edge.now.time_ns, id));
        }
        if !is_around {
            self.suspended.insert((tgid, id));
            self.landed(tgid, id);
        }
    }

    /// Takes back the end at the last send, if the same thread sent and ran nothing else since.
    fn took_back(&mut self, id: u64, edge: &Edge<'_>) -> bool {
        let Some(open) = self.open.get_mut(&id) else { return false };
        let was_away = edge.record.arguments[2] == MAY_GO_ON_ELSEWHERE;
        let before = open.held.take().filter(|held| held.thread == edge.thread && !was_away);
        let (Place::Suspended(_), Some(before)) = (open.place, before) else { return false };
        open.place = Place::On(edge.thread, before.now);
        open.settle(&edge.now);
        if let Some(state) = self.threads.get_mut(edge.thread) {
            state.within.begins(&before.now);
            state.comes_out(Some(&edge.now));
        }
        true
    }

    /// Ends the segment of a request that something is sent of; it goes on if a phase is open within it.
    fn settle_here(&mut self, id: u64, edge: &Edge<'_>, goes_on: bool) {
        let now = self.snapshot_for(id, edge);
        self.note_segment(id, &now);
        if !goes_on {
            self.unstack(id, false, Some(&now));
        }
        let Some(open) = self.open.get_mut(&id) else { return };
        let place = open.place;
        open.settle(&now);
        if let Place::On(thread, _) = place
            && goes_on
        {
            open.go_on(thread, &now);
        }
    }

    /// Whether the request is over unless more is sent.
    pub(super) fn is_held(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.held.is_some() && open.children == 0)
    }

    /// Ends a request at its last send.
    pub(super) fn finish_held(&mut self, id: u64) {
        self.unstack(id, true, None);
        if let Some(open) = self.open.remove(&id) {
            self.retire(open, Ending::Ended);
        }
    }

    /// Ends requests of which nothing was sent for long.
    pub(super) fn expire_held(&mut self, now_ns: u64) {
        while let Some((since_ns, id)) = self.held.front().copied() {
            if since_ns.saturating_add(HELD_NS) > now_ns {
                return;
            }
            self.held.pop_front();
            let Some(open) = self.open.get_mut(&id) else { continue };
            match &open.held {
                Some(held) if held.now.time_ns > since_ns => self.held.push_back((held.now.time_ns, id)),
                Some(_) if open.children == 0 => self.finish_held(id),
                Some(_) | None => open.is_listed = false,
            }
        }
    }

    /// The oldest of them makes room. Whether there was one.
    pub(super) fn finish_oldest_held(&mut self) -> bool {
        while let Some((_, id)) = self.held.pop_front() {
            if self.is_held(id) {
                self.finish_held(id);
                return true;
            }
            if let Some(open) = self.open.get_mut(&id) {
                open.is_listed = false;
            }
        }
        false
    }
}
