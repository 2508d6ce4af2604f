//! All threads that pairing knows: by identity, by process, by thread number.
//!
//! Ends may be lost, so that threads would stay for ever: it also finds threads whose slots have been reused.
//! Ending them is the caller's task.

use std::collections::{BTreeSet, VecDeque};

use super::{table::Table, thread::ThreadState, thread_id::ThreadId};

/// The threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    known: Table<ThreadId, ThreadState>,
    /// In the order of their numbers.
    by_number: BTreeSet<ThreadId>,
    by_process: BTreeSet<(u32, ThreadId)>,
    /// Owner of each slot.
    owners: Table<u16, ThreadId>,
    /// Threads whose slots others have now, in the order in which that was seen.
    displaced: VecDeque<ThreadId>,
    /// Numbers of the threads that ended last, the latest one last.
    ended: VecDeque<u32>,
}

/// Number of ended threads that are remembered: a wait that a thread ended is reported right after its end.
const ENDED: usize = 1_024;

impl Threads {
    pub(crate) fn get(&self, thread: ThreadId) -> Option<&ThreadState> {
        self.known.get(&thread)
    }

    pub(crate) fn get_mut(&mut self, thread: ThreadId) -> Option<&mut ThreadState> {
        self.known.get_mut(&thread)
    }

    /// Number of threads.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The thread, which is known from here on.
    pub(crate) fn meet(&mut self, thread: ThreadId, slot: u16) -> &mut ThreadState {
        if !self.known.contains_key(&thread) {
            self.list(thread, slot);
        }
        let state = self.known.entry(thread).or_default();
        state.slot = slot;
        state
    }

    pub(crate) fn insert(&mut self, thread: ThreadId, state: ThreadState) {
        self.list(thread, state.slot);
        self.known.insert(thread, state);
    }

    fn list(&mut self, thread: ThreadId, slot: u16) {
        self.by_number.insert(thread);
        self.by_process.insert((thread.tgid, thread));
        self.displaced.extend(self.owners.insert(slot, thread).filter(|before| *before != thread));
        // Nearly all of them have ended as they should.
        if self.displaced.len() > self.known.len() + 64 {
            self.displaced.retain(|thread| self.known.contains_key(thread));
        }
    }

    pub(crate) fn remove(&mut self, thread: ThreadId) -> Option<ThreadState> {
        let state = self.known.remove(&thread)?;
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(thread.tid);
        self.by_number.remove(&thread);
        self.by_process.remove(&(thread.tgid, thread));
        if self.owners.get(&state.slot) == Some(&thread) {
            self.owners.remove(&state.slot);
        }
        Some(state)
    }

    /// The thread that lost its slot first, if there are more than so many.
    pub(crate) fn beyond(&mut self, most: usize) -> Option<ThreadId> {
        while self.known.len() > most {
            let displaced = self.displaced.pop_front()?;
            if self.known.contains_key(&displaced) {
                return Some(displaced);
            }
        }
        None
    }

    /// Threads of this number.
    pub(crate) fn of_number(&self, tid: u32) -> impl Iterator<Item = ThreadId> + '_ {
        let first = ThreadId { tid, tgid: 0, born_ns: 0 };
        let last = ThreadId { tid, tgid: u32::MAX, born_ns: u64::MAX };
        self.by_number.range(first..=last).copied()
    }

    /// Whether a thread of this number is observed, or was until recently.
    pub(crate) fn knows(&self, tid: u32) -> bool {
        self.of_number(tid).next().is_some() || self.ended.contains(&tid)
    }

    /// Threads of this process.
    pub(crate) fn of_process(&self, tgid: u32) -> impl Iterator<Item = ThreadId> + '_ {
        let last = ThreadId { tid: u32::MAX, tgid: u32::MAX, born_ns: u64::MAX };
        self.by_process.range((tgid, ThreadId::default())..=(tgid, last)).map(|(_, thread)| *thread)
    }

    /// All threads.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ThreadId, &ThreadState)> + '_ {
        self.known.iter().map(|(thread, state)| (*thread, state))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{ThreadId, Threads};

    #[test]
    fn threads_that_lost_their_slots_are_found_first() {
        let thread = |tid| ThreadId { tid, tgid: 1, born_ns: u64::from(tid) };
        let mut threads = Threads::default();
        for tid in 1..=10 {
            threads.meet(thread(tid), (tid % 3) as u16);
        }
        assert_eq!(threads.beyond(10), None);
        assert_eq!(threads.beyond(9), Some(thread(1)));
        threads.remove(thread(1));
        threads.remove(thread(2));
        assert_eq!((threads.beyond(7), threads.beyond(3)), (Some(thread(3)), Some(thread(4))));
        assert_eq!(threads.of_number(5).collect::<Vec<_>>(), [thread(5)]);
        assert_eq!(
            (threads.of_process(1).count(), threads.of_process(2).count(), threads.iter().count()),
            (8, 0, 8)
        );
    }
}
