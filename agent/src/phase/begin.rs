//! How a phase begins: as a request, inside another phase, or not at all. Part of [`Pairing`].

use guestscope_ebpf::{EDGE_NAME_UNREADABLE, EdgeRecord, NAME_BYTES, is_root_token};

use super::{
    Ending, PhaseKind, ThreadId,
    open::{OpenPhase, Place, begun},
    pairing::{Edge, Pairing},
    stack::Entry,
};
use crate::untrusted::Untrusted;

impl Pairing {
    pub(super) fn name(&mut self, record: &EdgeRecord) -> (Untrusted, bool) {
        let length = usize::try_from(record.arguments[1]).unwrap_or(usize::MAX);
        let unreadable = record.header.flags & EDGE_NAME_UNREADABLE != 0;
        let bytes = if unreadable { &[][..] } else { &record.name[..length.min(NAME_BYTES)] };
        let (name, repaired) = self.names.get(bytes);
        let damaged = unreadable || repaired || length > NAME_BYTES;
        self.losses.damaged_names += u64::from(damaged);
        (if unreadable { self.names.get(b"(unreadable)").0 } else { name }, damaged)
    }

    pub(super) fn begin(&mut self, edge: &Edge<'_>, outermost: bool) {
        let joined = if outermost { None } else { self.join_neighbour(edge) };
        let key = edge.key(edge.record.token);
        if let Some(stale) = self.keys.get(&key).copied() {
            // The program uses the token again, so the end of its last use was lost.
            self.end_at(stale, edge, Ending::Lost);
        }
        if !outermost && is_root_token(edge.record.token) {
            // The library has nothing open on this thread, so the ends of what is still here were lost.
            let state = self.threads.get_mut(edge.thread);
            for open in state.map(|state| state.clear_of(edge.instance)).unwrap_or_default() {
                self.close(open, &edge.now, Ending::Lost);
            }
        }
        if self.is_inside_the_unseen(edge) {
            // It is no request of its own: its end will find no begin, and be counted.
            return;
        }
        let slot = edge.record.ledger.slot;
        self.threads.meet(edge.thread, slot).phases += 1;
        let innermost = self.innermost(edge.thread);
        if !outermost && !self.has_room_within(innermost, edge) {
            self.leave_out(edge);
            return;
        }
        let (name, name_damaged) = self.name(edge.record);
        let parent = innermost.filter(|_| !outermost);
        if parent.is_none() {
            self.is_new(key);
            self.make_room(edge);
        }
        let id = self.next_id();
        let around = parent.and_then(|parent| self.open.get(&parent));
        let (root, depth) = around.map_or((id, 0), |around| (around.root, around.depth + 1));
        let kind = if parent.is_none() { PhaseKind::Request } else { PhaseKind::Phase };
        let (now, share) = joined.unwrap_or_else(|| (edge.now, self.helpers.share(key.0)));
        let mut phase = begun(id, kind, name, edge.thread, now.time_ns);
        phase.name_damaged = name_damaged;
        phase.parent = parent;
        phase.root = root;
        phase.request = edge.record.arguments[2];
        self.keys.insert(key, id);
        if let Some(around) = parent.and_then(|parent| self.open.get_mut(&parent)) {
            around.children += 1;
        }
        let place = Place::On(edge.thread, now);
        self.open.insert(
            id,
            Box::new(OpenPhase { root, place, stands: 0, depth, children: 0, key, share, phase }),
        );
        self.stack(id);
        self.requests.entry(root).or_default().begin(id);
        self.kept += 1;
        if parent.is_none() {
            self.note_order(root);
        }
        if outermost {
            self.queued(edge, id);
        }
    }

    /// The innermost phase of a thread.
    pub(super) fn innermost(&self, thread: ThreadId) -> Option<u64> {
        self.threads.get(thread)?.stack.top().map(|top| top.id)
    }

    /// Puts a phase onto the thread that it is on.
    pub(super) fn stack(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let Place::On(thread, begin) = open.place else { return };
        let Some(state) = self.threads.get_mut(thread) else { return };
        open.stands = state.stack.push(Entry {
            id,
            root: open.root,
            depth: open.depth,
            instance: open.key.1,
            begin_ns: begin.time_ns,
            lost_before: state.lost,
            ..Entry::default()
        });
        self.note_thread(thread);
    }

    /// Whether the library made this phase inside a request that its thread had begun before it was adopted.
    fn is_inside_the_unseen(&mut self, edge: &Edge<'_>) -> bool {
        let token = edge.record.token;
        let root = edge.root();
        let is_inside = root != 0 && token != root && !self.keys.contains_key(&edge.key(root));
        let Some(state) = self.threads.get_mut(edge.thread) else { return false };
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
        self.kept += 1;
    }
}
