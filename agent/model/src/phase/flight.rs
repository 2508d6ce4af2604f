//! What is in flight, for sharing helpers: threads inside phases, and requests on no thread. Part of
//! [`Pairing`].

use super::{
    helpers::Carrier,
    open::{OpenPhase, Place},
    pairing::Pairing,
    thread_id::ThreadId,
};

impl Pairing {
    /// The phases of a thread have changed. Phases that were open when its edges were lost may have ended:
    /// they no longer count, or a single lost end would halve the shares of all others for good.
    pub(super) fn note_thread(&mut self, thread: ThreadId) {
        let state = self.threads.get_mut(thread);
        let is_inside = state.is_some_and(|state| {
            state.doubtful = state.doubtful.min(state.stack.len());
            state.stack.len() > state.doubtful
        });
        self.helpers.carry(thread.tgid, Carrier::Thread(thread), is_inside);
    }

    /// Edges of a thread were lost.
    pub(super) fn doubt(&mut self, thread: ThreadId) {
        if let Some(state) = self.threads.get_mut(thread) {
            state.doubtful = state.stack.len();
        }
        self.note_thread(thread);
    }

    /// A phase was left or continued. For helpers, all time of a request on no thread is waiting.
    pub(super) fn note_suspended(&mut self, id: u64) {
        let Some(open) = self.open.get(&id).filter(|open| open.root == id) else { return };
        let (tgid, is_suspended) = (open.key.tgid, matches!(open.place, Place::Suspended(_)));
        self.helpers.carry(tgid, Carrier::Suspended(id), is_suspended);
    }

    /// A phase has ended.
    pub(super) fn landed(&mut self, tgid: u32, id: u64) {
        self.helpers.carry(tgid, Carrier::Suspended(id), false);
        if !self.helpers.is_busy(tgid) {
            self.waits.forget(tgid);
        }
    }

    /// A request goes on that was on no thread until now.
    pub(super) fn resumed(&mut self, open: &OpenPhase, now_ns: u64) {
        if let Place::Suspended(away) = open.place
            && open.root == open.phase.id
        {
            self.waits.suspended(open.key.tgid, open.root, (away.since_ns, now_ns));
        }
    }
}
