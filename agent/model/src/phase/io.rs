//! Completed I/Os, added to the phases that submitted them: how long they stood in a queue, and how long the
//! device had them. Part of [`Pairing`].
//!
//! I/Os of one thread may overlap each other and its other work: their times are not an account and may be
//! longer than the phase. An I/O that completes after its phase is added as long as the request is not over;
//! after that it is late, and counted. When a phase leaves a thread, its segment there is kept: the last few
//! with I/O on block devices, and as many others, since a flush or a discard is in no count of reads and
//! writes, and without the hook of those counts no I/O is.

use guestscope_contract::IoRecord;

use super::{
    Counts,
    ios::{Ios, KEPT, Segment},
    open::Place,
    pairing::Pairing,
    snapshot::Snapshot,
    thread_id::ThreadId,
};

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
        if let Some(state) = self.threads.get_mut(thread) {
            state.ios.note_of_ring(record);
        }
        let is_whole = self.add_within(thread, record.submitted_ns, &counts);
        self.losses.late_ios += u64::from(!is_whole);
    }

    /// Adds to all phases that the thread was in at that time. Returns whether all are still known.
    pub(super) fn add_within(&mut self, thread: ThreadId, time_ns: u64, counts: &Counts) -> bool {
        let Some((segments, mut is_whole)) = self.around(thread, time_ns, counts) else { return true };
        for segment in segments {
            is_whole &= self.add_to_left(segment, counts);
        }
        is_whole
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
