//! State of one thread in the pairing: its open phases, its edge numbers, its name.
//!
//! Edge numbers count from 1, per thread and copy of the marker library in the process; a gap is a loss.

use guestscope_contract::{COMM_BYTES, is_at_mark};

use super::{
    ios::Ios,
    occupied::{self, Occupied},
    snapshot::Snapshot,
    stack::Stack,
    unfinished::LastWait,
    within::Within,
};
use crate::untrusted::Untrusted;

/// Copies of the library that are distinguished per thread; programs have one or two. The oldest are dropped
/// first.
const COPIES: usize = 16;

/// A `comm` as text.
pub(crate) fn comm(bytes: &[u8; COMM_BYTES]) -> Untrusted {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Untrusted::of_bytes(&bytes[..end])
}

/// How an edge's number follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// It is the next number.
    Next,
    /// This many before it were never seen, and it is the first one seen.
    Before(u64),
    /// This many between it and the last one were lost.
    Lost(u64),
}

/// One thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadState {
    /// Open phases that run on it.
    pub(crate) stack: Stack,
    /// Phases that it has entered while they were on other threads.
    pub(crate) beside: Vec<u64>,
    /// Phases that ended while it was inside: its leaves are still to come.
    pub(crate) strays: u32,
    /// Number of outermost phases on it that may have ended unseen.
    pub(crate) doubtful: usize,
    /// Phases that are not kept and that it is inside, outside all others.
    left_out: u64,
    /// Time inside phases.
    pub(crate) within: Within,
    /// The phases that were innermost on it.
    pub(crate) occupied: Occupied,
    /// Details that are open on it and are no phases: copy of the library, token.
    pub(crate) alone: Vec<(u16, u64)>,
    /// Phases that it began.
    pub(crate) phases: u64,
    /// Edges of it that were lost.
    pub(crate) lost: u64,
    /// Edges of it that were left out on purpose, by its last edge, and how many of them explain no gap yet.
    left_out_edges: (u32, u64),
    /// The slot of its ledger.
    pub(crate) slot: u16,
    /// Name when it was created or adopted, last called exec, or was last renamed.
    pub(crate) name: Untrusted,
    /// Minor and major faults that it had when it was adopted.
    pub(crate) faults_before: (u64, u64),
    /// Whether it ran before it was adopted, so that it may be inside a request whose start was not seen;
    /// until a start is seen. A new program's marks may be seen late as well: where the agent attached, its
    /// probes are put in when it finds what the program has mapped.
    pub(crate) ran_before: bool,
    /// The process that its own was forked from, if it is that one's main thread and has not called exec.
    pub(crate) forked_from: Option<u32>,
    /// Its last long wait.
    pub(crate) last_wait: Option<LastWait>,
    /// Its I/Os.
    pub(crate) ios: Ios,
    /// Copies of the library that it has met.
    copies: Vec<Library>,
    /// Whether it has called exec: its phases may be of copies of the library that it has not met since.
    is_renewed: bool,
}

/// A copy of the library, as one thread has met it.
#[derive(Debug)]
struct Library {
    instance: u16,
    /// Number of its last edge.
    number: u32,
    /// No phase of the thread is below this place.
    floor: u64,
}

impl ThreadState {
    /// Adds its I/Os, which no snapshot holds, and takes out the faults from before it was tracked: the
    /// kernel counts them from its birth on.
    pub(crate) fn since_tracked(&self, mut now: Snapshot) -> Snapshot {
        let (minor, major) = self.faults_before;
        now.counts.add(&self.ios.done);
        now.counts.fault_minor = now.counts.fault_minor.saturating_sub(minor);
        now.counts.fault_major = now.counts.fault_major.saturating_sub(major);
        now
    }

    /// A phase has left it, at this snapshot, if one is known.
    pub(crate) fn comes_out(&mut self, now: Option<&Snapshot>) {
        if self.stack.top().is_none() {
            self.within.ends(now);
        }
    }

    /// Time so far that it was busy outside of phases, ns.
    pub(crate) fn outside_ns(&self, now: &Snapshot) -> u64 {
        occupied::outside_ns(now, &self.within.spent_by(now))
    }

    /// Takes note of an edge's number, and of the edges that were left out on purpose until then.
    pub(crate) fn edge(&mut self, instance: u16, number: u32, left_out: u32) -> Sequence {
        let sequence = self.follow(instance, number);
        let (before, unexplained) = &mut self.left_out_edges;
        *unexplained += u64::from(left_out.wrapping_sub(std::mem::replace(before, left_out)));
        let missing = match sequence {
            Sequence::Next => return sequence,
            Sequence::Before(edges) | Sequence::Lost(edges) => edges,
        };
        // Of two copies of the library, the gap of one may be explained by what the other left out: the
        // counter of the kernel side still has every edge for which there was no room.
        let explained = missing.min(*unexplained);
        *unexplained -= explained;
        match (missing - explained, sequence) {
            (0, _) => Sequence::Next,
            (edges, Sequence::Before(_)) => Sequence::Before(edges),
            (edges, _) => Sequence::Lost(edges),
        }
    }

    /// How an edge's number follows the one before.
    fn follow(&mut self, instance: u16, number: u32) -> Sequence {
        let Some(last) = self.copies.iter_mut().find(|copy| copy.instance == instance) else {
            if self.copies.len() == COPIES {
                self.copies.remove(0);
            }
            let is_renewed = std::mem::take(&mut self.is_renewed);
            let floor = if is_renewed { 0 } else { self.stack.next_place() };
            self.copies.push(Library { instance, number, floor });
            return if number <= 1 { Sequence::Next } else { Sequence::Before(u64::from(number) - 1) };
        };
        let gap = number.wrapping_sub(last.number);
        last.number = number;
        // A number that went back is a new program in the same thread (exec): it begins with 1 again. The
        // same number twice is two copies of the library that happen to have the same instance.
        if gap <= 1 || gap > u32::MAX / 2 { Sequence::Next } else { Sequence::Lost(u64::from(gap) - 1) }
    }

    /// Whether the edge with this mark is here, of any copy; a wait without one came before all edges.
    pub(crate) fn has_come_to(&self, mark: u8) -> bool {
        mark == 0 || self.copies.iter().any(|copy| is_at_mark(copy.number, mark))
    }

    /// Phases that are not kept and that it is inside, within its innermost other one.
    pub(crate) fn left_out(&self) -> u64 {
        self.stack.top().map_or(self.left_out, |top| top.left_out)
    }

    pub(crate) fn left_out_mut(&mut self) -> &mut u64 {
        match self.stack.top_mut() {
            Some(top) => &mut top.left_out,
            None => &mut self.left_out,
        }
    }

    /// The phases of one copy of the library, the innermost first. From here on there is none of it below.
    pub(crate) fn clear_of(&mut self, instance: u16) -> Vec<u64> {
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.instance == instance) else {
            return Vec::new();
        };
        self.left_out = 0;
        let floor = std::mem::replace(&mut copy.floor, self.stack.next_place());
        let above = self.stack.downward().take_while(|entry| entry.place >= floor);
        above.filter(|entry| entry.instance == instance).map(|entry| entry.id).collect()
    }

    /// A new program begins with 1.
    pub(crate) fn forget_edges(&mut self) {
        self.alone.clear();
        self.beside.clear();
        self.strays = 0;
        self.copies.clear();
        self.left_out_edges.1 = 0;
        self.is_renewed = true;
    }
}
