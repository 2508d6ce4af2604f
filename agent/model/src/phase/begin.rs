//! How a phase begins: as a request, inside another phase, or not at all. Part of [`Pairing`].

use std::sync::LazyLock;

use guestscope_contract::{
    EDGE_NAME_UNREADABLE, KERNEL_INSTANCE, NAME_BYTES, Source, connection::PEER_MOST, is_root_token,
};

use super::{
    open::{OpenPhase, Place, begun},
    pairing::{Edge, Pairing},
    stack::Entry,
    thread_id::ThreadId,
    values::{Ending, PhaseKind},
};
use crate::untrusted::Untrusted;

/// The phase from the scheduled time of a request to its start.
static QUEUE: LazyLock<Untrusted> = LazyLock::new(|| Untrusted::of_bytes(b"queue"));

impl Pairing {
    /// The name that an edge carries, as one of this source, and whether it is not what the program gave.
    pub(super) fn name(&mut self, edge: &Edge<'_>, source: Source) -> (Untrusted, bool) {
        let record = edge.record;
        let length = usize::try_from(Source::and_length(record.arguments[1]).1).unwrap_or(usize::MAX);
        if record.header.flags & EDGE_NAME_UNREADABLE != 0 {
            self.losses.damaged_names += 1;
            return (self.names.get(source, b"(unreadable)").name, true);
        }
        let named = self.names.get(source, &record.name[..length.min(NAME_BYTES)]);
        let is_damaged = named.is_repaired || length > NAME_BYTES;
        self.losses.damaged_names += u64::from(is_damaged);
        self.losses.names_left_out += u64::from(named.is_left_out);
        (named.name, is_damaged)
    }

    /// Source of the phase that begins: a phase that joins another one has the same source.
    fn source(&self, edge: &Edge<'_>, outermost: bool) -> Source {
        let own = Source::and_length(edge.record.arguments[1]).0;
        let neighbour = edge.record.arguments[3];
        if outermost || own != Source::Marker || neighbour == 0 {
            return own;
        }
        let joined = self.keys.get(&edge.key(neighbour)).and_then(|id| self.open.get(id));
        joined.map_or(own, |open| open.phase.source)
    }

    /// The number that the program gave to a request. Of those that are known by their sockets the agent
    /// counts.
    fn request_number(&mut self, edge: &Edge<'_>, source: Source) -> u64 {
        if source != Source::Socket {
            return edge.record.arguments[2];
        }
        self.connections += 1;
        self.connections
    }

    /// Whether a request is one by itself: the first thing that its thread is inside, or one that a program
    /// marks within what it marks itself. Another one is part of what its thread is inside, since two sources
    /// may see the same work.
    fn is_request(&self, source: Source, innermost: Option<u64>) -> bool {
        let around = innermost.and_then(|id| self.open.get(&id));
        around.is_none_or(|around| {
            source == Source::Marker && around.phase.source == Source::Marker
                || Self::is_beside(source, around)
        })
    }

    pub(super) fn begin(&mut self, edge: &Edge<'_>, outermost: bool) {
        let source = self.source(edge, outermost);
        let joined = if outermost { None } else { self.join_neighbour(edge) };
        let key = edge.key(edge.record.token);
        if let Some(stale) = self.keys.get(&key).copied()
            && !self.outlives(stale)
        {
            // The program uses the token again, so the end of its last use was lost.
            self.end_at(stale, edge, Ending::Lost);
        }
        if !outermost && is_root_token(edge.record.token) {
            self.close_all_of_copy(edge);
        }
        if self.is_inside_the_unseen(edge) {
            // It is not a request: its end will find no start, and be counted.
            return;
        }
        self.threads.meet(edge.thread, edge.record.ledger.slot).phases += 1;
        let innermost = self.parent_of(edge);
        if !outermost && innermost.is_none() && Source::is_detail(edge.record.arguments[1]) {
            return self.begin_alone(edge, source);
        }
        let is_request = outermost && self.is_request(source, innermost);
        if !is_request && !self.has_room_within(innermost, edge) {
            if outermost {
                self.is_left_out(key);
            }
            self.leave_out(edge);
            return;
        }
        let (name, name_damaged) = self.name(edge, source);
        let parent = innermost.filter(|_| !is_request);
        if parent.is_none() {
            self.is_new(key);
            self.make_room(edge);
        }
        let id = self.next_id();
        let around = parent.and_then(|parent| self.open.get(&parent));
        let (root, depth) = around.map_or((id, 0), |around| (around.root, around.depth + 1));
        let kind = if parent.is_none() { PhaseKind::Request } else { PhaseKind::Phase };
        let (now, share) = joined.unwrap_or_else(|| (edge.now, self.helpers.share(key.tgid)));
        let mut phase = begun(id, kind, name, edge.thread, now.time_ns);
        phase.comm = self.comm_of(edge.thread);
        phase.name_damaged = name_damaged;
        phase.source = source;
        (phase.parent, phase.root) = (parent, root);
        phase.request = self.request_number(edge, source);
        self.sources.begun(source, parent.is_none(), outermost || phase.request != 0);
        self.keys.insert(key, id);
        if let Some(around) = parent.and_then(|parent| self.open.get_mut(&parent)) {
            around.children += 1;
        }
        let place = Place::On(edge.thread, now);
        self.open.insert(id, Box::new(OpenPhase::new(place, depth, root, key, share, phase)));
        self.stack(id);
        self.requests.entry(root).or_default().begin(id);
        self.kept += 1;
        if parent.is_none() {
            self.note_order(root);
        }
        if is_request {
            self.queued(edge, id);
        }
    }

    /// The edge's copy of the library has nothing open on its thread, so the ends of what is still here were
    /// lost.
    fn close_all_of_copy(&mut self, edge: &Edge<'_>) {
        let state = self.threads.get_mut(edge.thread);
        for open in state.map(|state| state.clear_of(edge.instance)).unwrap_or_default() {
            self.close(open, &edge.now, Ending::Lost);
        }
    }

    /// The innermost phase of a thread.
    pub(super) fn innermost(&self, thread: ThreadId) -> Option<u64> {
        self.threads.get(thread)?.stack.top().map(|top| top.id)
    }

    /// Puts a phase onto the thread that it is on.
    pub(super) fn stack(&mut self, id: u64) {
        let Some(Place::On(thread, begin)) = self.open.get(&id).map(|open| open.place) else { return };
        self.note_turn(thread, begin.time_ns);
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(state) = self.threads.get_mut(thread) else { return };
        state.within.begins(&begin);
        open.stands = state.stack.push(Entry {
            id,
            root: open.root,
            depth: open.depth,
            instance: open.key.instance,
            begin_ns: begin.time_ns,
            lost_before: state.lost,
            ..Entry::default()
        });
        self.note_innermost(thread, begin.time_ns);
        self.note_thread(thread);
    }

    /// Whether the library made this phase inside a request that its thread had begun before it was adopted.
    fn is_inside_the_unseen(&mut self, edge: &Edge<'_>) -> bool {
        // Tokens of the kernel side name no roots.
        if edge.instance == KERNEL_INSTANCE {
            return false;
        }
        let token = edge.record.token;
        let root = edge.root();
        let is_inside = root != 0 && token != root && !self.keys.contains_key(&edge.key(root));
        let Some(state) = self.threads.get_mut(edge.thread) else { return false };
        state.ran_before &= is_inside;
        state.ran_before
    }

    /// A request of an open loop waited since its scheduled time: a separate phase, on no thread.
    fn queued(&mut self, edge: &Edge<'_>, root: u64) {
        let scheduled_ns = edge.record.arguments[3];
        let source = Source::and_length(edge.record.arguments[1]).0;
        // The value is a client's port, and the kernel side knew no connection with it.
        let is_port = source == Source::Python && scheduled_ns <= PEER_MOST;
        if scheduled_ns == 0 || is_port || scheduled_ns >= edge.now.time_ns {
            return;
        }
        let id = self.next_id();
        let name = QUEUE.clone();
        let mut phase = begun(id, PhaseKind::Queue, name, edge.thread, scheduled_ns);
        phase.comm = self.comm_of(edge.thread);
        phase.source = source;
        phase.duration_ns = edge.now.time_ns - scheduled_ns;
        phase.parent = Some(root);
        phase.root = root;
        phase.request = self.open.get(&root).map_or(0, |open| open.phase.request);
        self.requests.entry(root).or_default().add(phase);
        self.kept += 1;
    }
}
