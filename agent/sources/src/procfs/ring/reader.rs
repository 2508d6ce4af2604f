//! The reading of a ring's slots, in memory of any origin. Tests can put loom's atomics in the place of the
//! processor's: `agent/marker/tests/model.rs` tries the orders in which threads may run and see each other's
//! writes.

use std::{
    ptr::NonNull,
    time::{Duration, Instant},
};

use super::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The same values as in the marker library, which depends on nothing, and so has its own copies; a test
/// compares them.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"gscoper1");
pub(crate) const HEADER_BYTES: usize = 4096;
pub(crate) const HEAD: usize = 16;
pub(crate) const LOST: usize = 32;
pub(crate) const TAKEN: usize = 48;
pub(crate) const SLOT_WORDS: usize = 32;
pub(crate) const RECORD_WORDS: usize = 24;

/// A record.
pub(crate) type Words = [u64; RECORD_WORDS];

/// The one reader of a ring.
#[derive(Debug)]
pub(crate) struct Reader {
    memory: NonNull<AtomicU64>,
    /// Words of the memory: a header and the slots.
    words: usize,
    slots: u64,
    /// Position of the next record to be read.
    tail: u64,
    /// The slot there is claimed and not done: since when, and the head at that time.
    pub(super) stuck: Option<(Instant, u64)>,
    /// Slots that were given up, and slots without a whole record.
    pub(crate) unfinished: u64,
}

impl Reader {
    /// A reader of an empty ring, whose memory is all zero.
    ///
    /// # Safety `memory` points to a header and to `slots` slots behind it, which outlive the value, are
    /// aligned, and are only used through atomics; `slots` is a power of two.
    pub(crate) unsafe fn new(memory: NonNull<AtomicU64>, slots: usize) -> Self {
        let words = HEADER_BYTES / 8 + slots * SLOT_WORDS;
        let reader = Self { memory, words, slots: slots as u64, tail: 0, stuck: None, unfinished: 0 };
        reader.word(1).store(reader.slots, Relaxed);
        reader.word(0).store(MAGIC, Release);
        reader
    }

    /// Edges for which there was no slot, as their writers counted.
    pub(crate) fn lost(&self) -> u64 {
        self.word(LOST).load(Relaxed)
    }

    /// Programs that have taken the ring, as they counted.
    pub(crate) fn taken(&self) -> u64 {
        self.word(TAKEN).load(Relaxed)
    }

    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words);
        // SAFETY: `new` vouches for so many words, and for as long as `self` is. Others write there too, and
        // atomics are all that is ever made of it.
        unsafe { self.memory.add(index).as_ref() }
    }

    fn slot(&self, position: u64) -> usize {
        HEADER_BYTES / 8 + (position & (self.slots - 1)) as usize * SLOT_WORDS
    }

    /// Head of the ring. At most a whole ring is ahead, whatever the shared word claims.
    pub(crate) fn claimed(&self) -> u64 {
        self.tail.wrapping_add(self.waiting().min(self.slots))
    }

    /// Whether everything before this position was read or given up.
    pub(crate) fn is_past(&self, position: u64) -> bool {
        position.wrapping_sub(self.tail).cast_signed() <= 0
    }

    /// Slots claimed and not read; an impossible number counts as none.
    fn waiting(&self) -> u64 {
        let waiting = self.word(HEAD).load(Acquire).wrapping_sub(self.tail);
        if waiting > u64::MAX / 2 { 0 } else { waiting }
    }

    /// The next whole record. A slot that is unfinished after `patience` is skipped, together with all slots
    /// that were claimed by then. Each call skips at most the whole ring, whatever its head claims.
    pub(crate) fn next(&mut self, patience: Duration) -> Option<Words> {
        for _ in 0..self.slots {
            let head = self.claimed();
            if head == self.tail {
                return None;
            }
            let (slot, turn) = (self.slot(self.tail), self.tail & !(self.slots - 1));
            if self.word(slot).load(Acquire) != turn | 1 {
                let (since, claimed) = *self.stuck.get_or_insert_with(|| (Instant::now(), head));
                if since.elapsed() < patience {
                    return None;
                }
                self.unfinished += 1;
                self.pass(slot, turn);
                // The others that were claimed then have had their time as well.
                self.stuck = (claimed.wrapping_sub(self.tail).cast_signed() > 0).then_some((since, claimed));
                continue;
            }
            let sum = self.word(slot + 1).load(Relaxed);
            let words = std::array::from_fn(|index| self.word(slot + 2 + index).load(Relaxed));
            let is_whole = sum == checksum(self.tail, &words);
            self.pass(slot, turn);
            if self.stuck.is_some_and(|(_, claimed)| claimed.wrapping_sub(self.tail).cast_signed() <= 0) {
                self.stuck = None;
            }
            if is_whole {
                return Some(words);
            }
            self.unfinished += 1;
        }
        None
    }

    /// Frees the slot for the next lap.
    fn pass(&mut self, slot: usize, turn: u64) {
        self.word(slot).store(turn.wrapping_add(self.slots), Release);
        self.tail = self.tail.wrapping_add(1);
    }
}

// SAFETY: the pointer is to shared memory that is only used through atomics.
unsafe impl Send for Reader {}

/// The same checksum as the library's.
pub(crate) fn checksum(position: u64, record: &Words) -> u64 {
    record
        .iter()
        .fold(position ^ MAGIC, |sum, word| (sum ^ word).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
