//! The slots of a ring: claimed, filled, marked as done. Memory and nothing else, so that tests can put
//! loom's atomics in the place of the processor's: `tests/model.rs` tries the orders in which threads may run
//! and see each other's writes.

use super::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// First word of a ring; the last digit is the version of its layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gscoper1");
/// Bytes before the first slot: a page.
pub const HEADER_BYTES: usize = 4096;
/// Word that counts the slots claimed since the beginning.
pub const HEAD: usize = 16;
/// Word that counts edges without a slot. The head and this word are in separate cache lines.
pub const LOST: usize = 32;
/// Word that counts the programs that have taken the ring. Programs that cannot map it, or whose library is
/// older, are not counted.
pub const TAKEN: usize = 48;
/// Words of a slot, 256 bytes: its turn, a checksum, the record, and six that are not used.
pub const SLOT_WORDS: usize = 32;
/// Words of a record: see `reading`.
pub const RECORD_WORDS: usize = 24;
/// A number that this kernel does not report.
pub const UNKNOWN: u64 = u64::MAX;
/// Maximum number of times that other threads may take a slot first; then the edge counts as lost, since no
/// thread may wait.
const ATTEMPTS: u32 = 1 << 10;
/// A ring in this process's memory.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub(super) words: *const AtomicU64,
    /// One less than the number of slots, which is a power of two.
    pub(super) mask: u64,
}

// SAFETY: the memory is only used through atomics, and outlives the value wherever that is.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring over existing memory.
    ///
    /// # Safety
    /// `words` points to a header and to `slots` slots behind it, which outlive the value; `slots` is a power
    /// of two.
    #[must_use]
    pub const unsafe fn new(words: *const AtomicU64, slots: u64) -> Self {
        Self { words, mask: slots - 1 }
    }

    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `new` and `map` guarantee the header and as many slots as the mask says; no caller asks for
        // more.
        unsafe { &*self.words.add(index) }
    }

    /// Index of the first word of a position's slot.
    pub(super) fn slot(&self, position: u64) -> usize {
        HEADER_BYTES / 8 + (position & self.mask) as usize * SLOT_WORDS
    }

    /// Whether a slot can be claimed now; if not, the loss was counted. Slow work is done between this and
    /// `claim`: a writer that is stopped or killed while it holds a slot holds the reader up.
    pub(crate) fn has_room(&self) -> bool {
        let position = self.word(HEAD).load(Relaxed);
        let turn = self.word(self.slot(position)).load(Relaxed);
        let has_room = turn.wrapping_sub(position & !self.mask).cast_signed() >= 0;
        if !has_room {
            self.word(LOST).fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Claims a slot and returns its position, to be committed. None: there is no room, and the loss was
    /// counted.
    #[must_use]
    pub fn claim(&self) -> Option<u64> {
        for _ in 0..ATTEMPTS {
            let position = self.word(HEAD).load(Relaxed);
            let turn = self.word(self.slot(position)).load(Acquire);
            let ahead = turn.wrapping_sub(position & !self.mask).cast_signed();
            if ahead < 0 {
                break; // What lies there has not been read yet.
            }
            let next = position.wrapping_add(1);
            if ahead == 0 && self.word(HEAD).compare_exchange(position, next, Relaxed, Relaxed).is_ok() {
                return Some(position);
            }
        }
        self.word(LOST).fetch_add(1, Relaxed);
        None
    }

    /// Fills a claimed slot and marks it as done. A reader that has skipped it in the meantime has counted it
    /// as lost.
    pub fn commit(&self, position: u64, record: &[u64; RECORD_WORDS]) {
        let slot = self.slot(position);
        self.word(slot + 1).store(checksum(position, record), Relaxed);
        for (index, word) in record.iter().enumerate() {
            self.word(slot + 2 + index).store(*word, Relaxed);
        }
        let turn = position & !self.mask;
        let _ = self.word(slot).compare_exchange(turn, turn | 1, Release, Relaxed);
    }
}

/// Checksum that detects a record mixed from two writers: a writer may be stopped for so long that the reader
/// skips its slot, and continue when the slot belongs to another writer.
#[must_use]
pub fn checksum(position: u64, record: &[u64; RECORD_WORDS]) -> u64 {
    record
        .iter()
        .fold(position ^ MAGIC, |sum, word| (sum ^ word).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
