//! Completed I/Os, added to the phases that submitted them: how long they stood in a queue, and how long the
//! device had them. Part of [`Pairing`].
//!
//! I/Os of one thread may overlap each other and its other work: their times are not an account and may be
//! longer than the phase. An I/O that completes after its phase is added as long as the request is not over;
//! after that it is late, and counted. When a phase leaves a thread, its segment there is kept: the last few
//! with I/O on block devices, and as many others, since a flush or a discard is in no count of reads and
//! writes, and without the hook of those counts no I/O is.

use std::collections::VecDeque;

use guestscope_contract::IoRecord;

use super::{Counts, ThreadId, open::Place, pairing::Pairing, thread::Snapshot};

/// Segments kept per thread, each with any number of I/Os; an I/O with more phases than this between
/// submission and end is late. As many threads that are gone and were in a phase are kept as well.
const KEPT: usize = 32;

/// A segment of a phase that was on a thread and has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    phase: u64,
    root: u64,
    from_ns: u64,
    to_ns: u64,
}

/// The last few segments.
#[derive(Debug, Default)]
struct Segments {
    /// The oldest first; of nested phases the inner one.
    kept: VecDeque<Segment>,
    /// End of the last segment that was dropped: up to then the list is incomplete.
    forgotten_ns: Option<u64>,
}

impl Segments {
    fn keep(&mut self, segment: Segment) {
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
    busy: Segments,
    /// Segments of all other phases. They are so many that they would drive out the busy ones.
    quiet: Segments,
}

impl Ios {
    /// Segments that an instant lies in. False if there may be more.
    fn around(&self, time_ns: u64) -> (Vec<Segment>, bool) {
        let around: Vec<_> = self.busy.around(time_ns).chain(self.quiet.around(time_ns)).collect();
        // An I/O of a busy segment is almost never in a quiet one as well.
        let is_whole = self.busy.is_whole(time_ns) && (!around.is_empty() || self.quiet.is_whole(time_ns));
        (around, is_whole)
    }
}

/// One I/O as counts. Times of a damaged record are cut to possible ones.
fn counts(record: &IoRecord) -> Counts {
    let total_ns = record.header.time_ns.saturating_sub(record.submitted_ns);
    let queue_ns = match record.issued_ns {
        // A flush: the device was at it all the time, as far as can be known.
        0 => 0,
        issued_ns => issued_ns.saturating_sub(record.submitted_ns).min(total_ns),
    };
    Counts {
        block_io: 1,
        block_queue_ns: queue_ns,
        block_device_ns: total_ns - queue_ns,
        ..Counts::default()
    }
}

impl Pairing {
    /// An I/O is done.
    pub fn io(&mut self, record: &IoRecord) {
        let thread = ThreadId { tid: record.tid, tgid: record.tgid, born_ns: record.born_ns };
        let counts = counts(record);
        let Some((segments, mut is_whole)) = self.around(thread, record.submitted_ns, &counts) else {
            return;
        };
        for segment in segments {
            is_whole &= self.add_to_left(segment, &counts);
        }
        self.losses.late_ios += u64::from(!is_whole);
    }

    /// Adds to a thread, if it lives, and to the phases on it. Yields the segments that have left it, as of
    /// [`Ios::around`]; none for a thread that was in no phase while it lived.
    fn around(&mut self, thread: ThreadId, time_ns: u64, counts: &Counts) -> Option<(Vec<Segment>, bool)> {
        let Some(state) = self.threads.get_mut(thread) else {
            let gone = self.gone.iter().find(|gone| gone.0 == thread);
            return gone.map(|(_, ios)| ios.around(time_ns));
        };
        state.ios.done.add(counts);
        state.stack.add_ios(time_ns, counts);
        Some(state.ios.around(time_ns))
    }

    /// A thread is gone: what it submitted in phases may still be on its way.
    pub(super) fn note_gone(&mut self, thread: ThreadId, ios: Ios) {
        if ios.busy.kept.is_empty() && ios.quiet.kept.is_empty() {
            return;
        }
        if self.gone.len() == KEPT {
            // First the threads that most likely have no I/O under way.
            let quiet = self.gone.iter().position(|(_, ios)| ios.busy.kept.is_empty());
            self.gone.remove(quiet.unwrap_or(0));
        }
        self.gone.push_back((thread, ios));
    }

    /// Adds to a phase that has left the thread. False if it has been handed on.
    fn add_to_left(&mut self, segment: Segment, counts: &Counts) -> bool {
        if let Some(open) = self.open.get_mut(&segment.phase) {
            open.phase.counts.add(counts);
            return true;
        }
        self.requests.get_mut(&segment.root).is_some_and(|request| request.add_to(segment.phase, counts))
    }

    /// A phase leaves its thread at this snapshot: noted, behind what that thread waited for in it.
    pub(super) fn note_segment(&mut self, id: u64, now: &Snapshot) {
        self.place_early_in(id, now.time_ns);
        let Some(open) = self.open.get(&id) else { return };
        let Place::On(thread, begin) = open.place else { return };
        let bios = |snapshot: &Snapshot| (snapshot.counts.block_read, snapshot.counts.block_write);
        let (from_ns, to_ns) = (begin.time_ns, now.time_ns);
        let segment = Segment { phase: id, root: open.root, from_ns, to_ns };
        if let Some(state) = self.threads.get_mut(thread) {
            let is_quiet = bios(now) == bios(&begin);
            let segments = if is_quiet { &mut state.ios.quiet } else { &mut state.ios.busy };
            segments.keep(segment);
        }
    }
}
