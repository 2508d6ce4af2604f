//! The open phases of one thread, outermost first: any of them can leave, in a time independent of their
//! number.
//!
//! A phase that leaves stays as a gap until there are more gaps than phases.

use super::{Counts, limits::steps};

/// A phase on the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Phase number; 0 is a gap.
    pub(crate) id: u64,
    /// Place: later phases have larger ones.
    pub(crate) place: u64,
    /// Number of its request.
    pub(crate) root: u64,
    /// Phases around it.
    pub(crate) depth: u32,
    /// Which copy of the library began it.
    pub(crate) instance: u16,
    /// When it came to this thread, ns.
    pub(crate) begin_ns: u64,
    /// Edges of the thread that had been lost by then.
    pub(crate) lost_before: u64,
    /// Phases that began right within it and are not kept.
    pub(crate) left_out: u64,
    /// Completed I/Os of this phase and all below it. Once it has left, all of its own.
    pub(crate) ios: Option<Box<Counts>>,
}

impl Entry {
    fn add_ios(&mut self, counts: &Counts) {
        self.ios.get_or_insert_default().add(counts);
    }
}

/// The phases. The last entry is never a gap.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    entries: Vec<Entry>,
    phases: usize,
    next_place: u64,
    /// Number of entries with I/Os.
    with_ios: usize,
}

impl Stack {
    pub(crate) const fn len(&self) -> usize {
        self.phases
    }

    /// The place of the next phase.
    pub(crate) const fn next_place(&self) -> u64 {
        self.next_place
    }

    /// Puts a phase above all others and returns its place.
    pub(crate) fn push(&mut self, entry: Entry) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.phases += 1;
        self.entries.push(Entry { place, ..entry });
        place
    }

    /// Reserves a place for later, below all phases that come from here on.
    pub(crate) const fn reserve(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place - 1
    }

    /// Puts a phase at its reserved place.
    pub(crate) fn insert(&mut self, place: u64, entry: Entry) {
        let index = self.entries.partition_point(|other| other.place < place);
        steps::add(1 + self.entries.len() - index);
        self.phases += 1;
        self.entries.insert(index, Entry { place, ..entry });
    }

    /// The innermost phase.
    pub(crate) fn top(&self) -> Option<&Entry> {
        self.entries.last()
    }

    pub(crate) fn top_mut(&mut self) -> Option<&mut Entry> {
        self.entries.last_mut()
    }

    /// All phases, the innermost first.
    pub(crate) fn downward(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev().inspect(|_| steps::add(1)).filter(|entry| entry.id != 0)
    }

    /// Phases above a place, the innermost first.
    pub(crate) fn above(&self, place: u64) -> impl Iterator<Item = &Entry> {
        self.downward().take_while(move |entry| entry.place > place)
    }

    fn index(&self, place: u64) -> Option<usize> {
        // Most often it is the innermost one.
        if self.entries.last().is_some_and(|last| last.place == place) {
            return Some(self.entries.len() - 1);
        }
        let index = self.entries.binary_search_by_key(&place, |entry| entry.place).ok()?;
        (self.entries[index].id != 0).then_some(index)
    }

    /// An I/O of the thread completes: it belongs to all phases that were here at its submission.
    pub(crate) fn add_ios(&mut self, submitted_ns: u64, counts: &Counts) {
        let mut below = self.entries.iter_mut().rev().inspect(|_| steps::add(1));
        if let Some(entry) = below.find(|entry| entry.id != 0 && entry.begin_ns <= submitted_ns) {
            self.with_ios += usize::from(entry.ios.is_none());
            entry.add_ios(counts);
        }
    }

    /// The phase of this number, at this place, leaves.
    pub(crate) fn remove(&mut self, place: u64, id: u64) -> Option<Entry> {
        let index = self.index(place).filter(|index| self.entries[*index].id == id)?;
        let gap = Entry { place, ..Entry::default() };
        let mut entry = std::mem::replace(&mut self.entries[index], gap);
        self.phases -= 1;
        steps::add(1);
        if self.with_ios > 0 {
            self.share_ios(index, &mut entry);
        }
        while self.entries.last().is_some_and(|last| last.id == 0) {
            self.entries.pop();
            steps::add(1);
        }
        if self.entries.len() > 2 * self.phases + 32 {
            steps::add(self.entries.len());
            self.entries.retain(|entry| entry.id != 0);
        }
        Some(entry)
    }

    /// A phase that leaves takes the I/Os of those above as well; its own go to the ones below from now on.
    fn share_ios(&mut self, index: usize, left: &mut Entry) {
        let (below, above) = self.entries.split_at_mut(index);
        let mut counts = left.ios.as_deref().copied().unwrap_or_default();
        if let Some(own) = left.ios.take() {
            self.with_ios -= 1;
            let mut below = below.iter_mut().rev().inspect(|_| steps::add(1));
            if let Some(around) = below.find(|entry| entry.id != 0) {
                self.with_ios += usize::from(around.ios.is_none());
                around.add_ios(&own);
            }
        }
        for entry in above {
            steps::add(1);
            entry.ios.iter().for_each(|ios| counts.add(ios));
        }
        left.ios = Some(Box::new(counts));
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{Entry, Stack};
    use crate::phase::Counts;

    proptest! {
        /// Against a plain list, in which everything is looked for.
        #[test]
        fn phases_leave_from_any_place(turns in vec((0..4_usize, any::<usize>(), 0..40_u64), 0..300)) {
            let mut stack = Stack::default();
            let mut model: Vec<(u64, u64, u64, u64)> = Vec::new();
            for (turn, (what, which, ns)) in turns.into_iter().enumerate() {
                let now_ns = 10 * turn as u64;
                if what < 2 {
                    let id = turn as u64 + 1;
                    let place = stack.push(Entry { id, begin_ns: now_ns, ..Entry::default() });
                    model.push((id, place, now_ns, 0));
                } else if what == 2 {
                    let submitted_ns = now_ns.saturating_sub(ns);
                    stack.add_ios(submitted_ns, &Counts { block_io: 1, ..Counts::default() });
                    model.iter_mut().filter(|one| one.2 <= submitted_ns).for_each(|one| one.3 += 1);
                } else if !model.is_empty() {
                    let (id, place, _, ios) = model.remove(which % model.len());
                    let entry = stack.remove(place, id).unwrap();
                    let done = entry.ios.map_or(0, |ios| ios.block_io);
                    prop_assert_eq!((entry.id, done), (id, ios));
                    prop_assert!(stack.remove(place, id).is_none(), "it left once");
                }
                let here: Vec<u64> = stack.downward().map(|entry| entry.id).collect();
                prop_assert_eq!(here, model.iter().rev().map(|one| one.0).collect::<Vec<u64>>());
                prop_assert_eq!(stack.len(), model.len());
                prop_assert_eq!(stack.top().map(|top| top.id), model.last().map(|last| last.0));
                prop_assert!(stack.entries.len() <= 2 * model.len() + 33, "gaps do not pile up");
            }
        }
    }
}
