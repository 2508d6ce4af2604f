//! Long waits that came before the edges that they lie behind: kept until those have come.

use std::collections::VecDeque;

use guestscope_contract::WaitRecord;

use super::{table::Table, thread_id::ThreadId};

/// Waits that are kept until their edges are here: as many as the ring holds.
pub(super) const EARLY: usize = 16_384;

/// Waits that arrived before an edge that their thread had begun earlier: the thread lost its CPU inside the
/// BPF program that records the edge, or another thread did and blocked the ring of edges. Their phase is
/// known once that edge arrives. Waits right after the start of a request are kept as well, until the next
/// edge.
#[derive(Debug, Default)]
pub(crate) struct Early {
    pub(super) of: Table<ThreadId, VecDeque<WaitRecord>>,
    /// Number of waits kept.
    kept: usize,
}

impl Early {
    /// Keeps a wait. False if there is no room.
    pub(super) fn keep(&mut self, thread: ThreadId, record: &WaitRecord) -> bool {
        let has_room = self.kept < EARLY;
        if has_room {
            self.kept += 1;
            self.of.entry(thread).or_default().push_back(*record);
        }
        has_room
    }

    /// The first waits of a thread for which `is_due` holds.
    pub(super) fn take(&mut self, thread: ThreadId, is_due: impl Fn(&WaitRecord) -> bool) -> Vec<WaitRecord> {
        // Asked at every edge, and there is hardly ever one.
        if self.of.is_empty() {
            return Vec::new();
        }
        let Some(waits) = self.of.get_mut(&thread) else { return Vec::new() };
        let due: Vec<WaitRecord> = std::iter::from_fn(|| waits.pop_front_if(|wait| is_due(wait))).collect();
        if waits.is_empty() {
            self.of.remove(&thread);
        }
        self.kept -= due.len();
        due
    }
}
