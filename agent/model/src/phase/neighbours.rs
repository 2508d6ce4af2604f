//! Edges with two meanings at one instant: a phase ends where the next one begins, the first phase of a
//! request begins with it, and the last one ends with it. Part of [`Pairing`].
//!
//! Between two edges lies the probe itself, about 2 us, and any thread that gets the CPU then; with one edge
//! there is no gap.

use guestscope_contract::{Account, WaitRecord, calls::EDGE_CALL_LOST};

use super::{
    helpers::Share,
    open::{OpenRequest, Place},
    pairing::{Edge, Pairing},
    snapshot::Snapshot,
    thread_id::ThreadId,
    values::Ending,
};

/// Largest gap between a request's edge and that of its first phase, on the CPU throughout: usually 2 us, and
/// 10 where edges are slow.
const BETWEEN_EDGES_NS: u64 = 20_000;

impl Pairing {
    /// A phase begins, and its edge names the phase that it joins. That phase ends here. If it is the phase's
    /// own root, returns where the root began, and the helpers' activity up to then.
    pub(super) fn join_neighbour(&mut self, edge: &Edge<'_>) -> Option<(Snapshot, Share)> {
        let neighbour = edge.record.arguments[3];
        // No phase joins itself.
        if neighbour == 0 || neighbour == edge.record.token {
            return None;
        }
        if neighbour == edge.root() {
            return self.begin_of(neighbour, edge);
        }
        self.end_token(neighbour, edge);
        None
    }

    /// Where a root began. A damaged record may name a root that it cannot join.
    fn begin_of(&self, root: u64, edge: &Edge<'_>) -> Option<(Snapshot, Share)> {
        let (innermost, begin) = self.untouched(edge.thread)?;
        let id = self.keys.get(&edge.key(root)).filter(|id| **id == innermost)?;
        Some((begin, self.open.get(id)?.share))
    }

    /// The innermost phase of a thread and its start, if it is a root that has been there all the time, has
    /// had no phase within it, and lost nothing.
    fn untouched(&self, thread: ThreadId) -> Option<(u64, Snapshot)> {
        let state = self.threads.get(thread)?;
        let top = state.stack.top()?;
        let id = top.id;
        let open = self.open.get(&id)?;
        let Place::On(_, begin) = open.place else { return None };
        let has_lost = open.phase.edges_lost > 0 || state.lost > top.lost_before;
        let is_whole = begin.time_ns == open.phase.start_ns && !has_lost;
        let is_untouched = is_whole && self.requests.get(&id).is_some_and(OpenRequest::is_untouched);
        is_untouched.then_some((id, begin))
    }

    /// Whether a wait may lie in the first phase of a request, whose edge has not come: a thread that takes
    /// the CPU between the two edges takes it from that phase. The program's own waits come after them.
    pub(super) fn may_be_of_first(&self, thread: ThreadId, wait: &WaitRecord) -> bool {
        let was_preempted = wait.account == Account::Runq as u8;
        was_preempted
            && self.untouched(thread).is_some_and(|(_, begin)| {
                wait.left_ns.checked_sub(begin.time_ns).is_some_and(|after_ns| after_ns < BETWEEN_EDGES_NS)
            })
    }

    /// A phase ends, perhaps together with one within it.
    pub(super) fn end(&mut self, edge: &Edge<'_>) {
        let inner = edge.record.arguments[1];
        if inner != 0 {
            self.end_token(inner, edge);
        }
        self.end_if_there(edge.record.token, self.target(edge), edge);
    }

    fn end_token(&mut self, token: u64, edge: &Edge<'_>) {
        self.end_if_there(token, self.keys.get(&edge.key(token)).copied(), edge);
    }

    fn end_if_there(&mut self, token: u64, id: Option<u64>, edge: &Edge<'_>) {
        match id {
            Some(id) if edge.record.header.flags & EDGE_CALL_LOST != 0 => self.end_at(id, edge, Ending::Lost),
            Some(id) => self.end_at(id, edge, Ending::Ended),
            None if self.end_left_out(token, edge) => {}
            None => self.losses.unmatched_ends += 1,
        }
    }
}
