//! What pairing remembers of a thread's I/O: the segments of phases that an I/O may come from.

use std::collections::VecDeque;

use guestscope_contract::{IO_OF_RING, IO_WRITES, IoRecord};

use super::Counts;

/// Segments kept per thread, each with any number of I/Os; an I/O with more phases than this between
/// submission and end is late. As many threads that are gone and were in a phase are kept as well.
pub(super) const KEPT: usize = 32;
/// I/Os of io_uring kept per thread: a wait counts those that were done in it.
const RING: usize = 256;

/// A segment of a phase that was on a thread and has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) phase: u64,
    pub(super) root: u64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// The last few segments.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The oldest first; of nested phases the inner one.
    pub(super) kept: VecDeque<Segment>,
    /// End of the last segment that was dropped: up to then the list is incomplete.
    forgotten_ns: Option<u64>,
}

impl Segments {
    pub(super) fn keep(&mut self, segment: Segment) {
        if self.kept.len() == KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.forgotten_ns = self.forgotten_ns.max(Some(oldest.to_ns));
        }
        self.kept.push_back(segment);
    }

    /// The segments that an instant lies in.
    fn around(&self, time_ns: u64) -> impl Iterator<Item = Segment> {
        let later = self.kept.iter().rev().take_while(move |segment| segment.to_ns >= time_ns);
        later.filter(move |segment| segment.from_ns <= time_ns).copied()
    }

    /// Whether all segments around this time are still kept.
    fn is_whole(&self, time_ns: u64) -> bool {
        self.forgotten_ns.is_none_or(|forgotten_ns| time_ns > forgotten_ns)
    }
}

/// I/O of a thread that pairing has to remember.
#[derive(Debug, Default)]
pub(crate) struct Ios {
    /// Completed I/Os, in the counts of I/Os.
    pub(crate) done: Counts,
    /// Segments of phases that are known to have asked a block device for something.
    pub(super) busy: Segments,
    /// Segments of all other phases. They are so many that they would drive out the busy ones.
    pub(super) quiet: Segments,
    /// The last ones of io_uring: when they were done, and whether they were writes.
    of_ring: VecDeque<(u64, bool)>,
}

impl Ios {
    /// Reads and writes of io_uring that were done since then.
    pub(super) fn of_ring_since(&self, time_ns: u64) -> (u32, u32) {
        let (mut reads, mut writes) = (0, 0);
        for (_, is_write) in self.of_ring.iter().rev().take_while(|(done_ns, _)| *done_ns >= time_ns) {
            *(if *is_write { &mut writes } else { &mut reads }) += 1;
        }
        (reads, writes)
    }

    /// Notes one of io_uring.
    pub(super) fn note_of_ring(&mut self, record: &IoRecord) {
        if record.header.flags & IO_OF_RING == 0 {
            return;
        }
        if self.of_ring.len() == RING {
            self.of_ring.pop_front();
        }
        self.of_ring.push_back((record.header.time_ns, record.header.flags & IO_WRITES != 0));
    }

    /// Segments that an instant lies in. False if there may be more.
    pub(super) fn around(&self, time_ns: u64) -> (Vec<Segment>, bool) {
        let around: Vec<_> = self.busy.around(time_ns).chain(self.quiet.around(time_ns)).collect();
        // An I/O of a busy segment is almost never in a quiet one as well.
        let is_whole = self.busy.is_whole(time_ns) && (!around.is_empty() || self.quiet.is_whole(time_ns));
        (around, is_whole)
    }
}
