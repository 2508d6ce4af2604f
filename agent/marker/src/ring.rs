//! The path of edges to an agent without BPF: a ring of slots in memory that the agent shares.
//!
//! Yields whole records or none. A thread claims a slot by moving the ring's head, writes, and marks the slot
//! as done; it never waits, and if the ring is full its edge is only counted there. Without a ring an edge
//! costs one load and a jump that is not taken. The words of a record are deliberately opaque here.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{reading, syscall};

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
/// Slots of the largest ring that is mapped: 1 GiB.
const SLOTS_MOST: usize = 1 << 22;

/// A ring in this process's memory.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    words: *const AtomicU64,
    /// One less than the number of slots, which is a power of two.
    mask: u64,
}

/// The ring of this process, and its mask; null while there is none. Forked children keep both.
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
static MASK: AtomicU64 = AtomicU64::new(0);
/// Tells this program from the next one that the process executes.
static IMAGE: AtomicU64 = AtomicU64::new(0);

/// Whether an agent has passed a ring.
#[inline]
pub(crate) fn is_there() -> bool {
    !WORDS.load(Relaxed).is_null()
}

/// The ring of this process.
pub(crate) fn current() -> Option<Ring> {
    let words = WORDS.load(Acquire);
    if words.is_null() { None } else { Some(Ring { words, mask: MASK.load(Relaxed) }) }
}

/// The number of this program among those that the process executes.
pub(crate) fn image() -> u64 {
    IMAGE.load(Relaxed)
}

/// Maps the descriptor if it is a ring that cannot shrink, and closes it. Once per program: a forked child
/// gets a ring that it has already.
#[cold]
pub(crate) fn adopt(descriptor: usize) {
    if current().is_none()
        && let Some(ring) = map(descriptor)
    {
        IMAGE.store(reading::image(), Relaxed);
        MASK.store(ring.mask, Relaxed);
        WORDS.store(ring.words.cast_mut(), Release);
    }
    if let Some(ring) = current() {
        ring.word(TAKEN).fetch_add(1, Relaxed);
    }
    // SAFETY: the descriptor came with the agent's answer and is not used elsewhere.
    unsafe { syscall::call(syscall::CLOSE, [descriptor, 0, 0, 0, 0, 0]) };
}

fn map(descriptor: usize) -> Option<Ring> {
    const GET_SEALS: usize = 1034;
    const SEALED_AGAINST_SHRINKING: isize = 2;
    const END: usize = 2;
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    // SAFETY: takes integers; here and below, an error is a negative number.
    let seals = unsafe { syscall::call(syscall::FCNTL, [descriptor, GET_SEALS, 0, 0, 0, 0]) };
    // If the memory could be truncated, the program would be killed at its next edge.
    if seals < 0 || seals & SEALED_AGAINST_SHRINKING == 0 {
        return None;
    }
    // SAFETY: takes integers.
    let bytes = unsafe { syscall::call(syscall::LSEEK, [descriptor, 0, END, 0, 0, 0]) };
    let of_slots = usize::try_from(bytes).ok()?.checked_sub(HEADER_BYTES)?;
    let slots = of_slots / (8 * SLOT_WORDS);
    if !slots.is_power_of_two() || slots > SLOTS_MOST || slots * 8 * SLOT_WORDS != of_slots {
        return None;
    }
    let bytes = HEADER_BYTES + of_slots;
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
    let words = unsafe { syscall::call(syscall::MMAP, [0, bytes, READ_WRITE, SHARED, descriptor, 0]) };
    if words <= 0 {
        return None;
    }
    let words = ptr::with_exposed_provenance::<AtomicU64>(words as usize);
    // SAFETY: the mapping is at least a page long and stays for as long as the program.
    if unsafe { &*words }.load(Relaxed) != MAGIC {
        // SAFETY: the mapping is ours and not shared yet.
        unsafe { syscall::call(syscall::MUNMAP, [words.expose_provenance(), bytes, 0, 0, 0, 0]) };
        return None;
    }
    Some(Ring { words, mask: slots as u64 - 1 })
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

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `new` and `map` guarantee the header and as many slots as the mask says; no caller asks for
        // more.
        unsafe { &*self.words.add(index) }
    }

    /// Index of the first word of a position's slot.
    fn slot(&self, position: u64) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(slots: usize) -> Vec<AtomicU64> {
        let words = HEADER_BYTES / 8 + slots * SLOT_WORDS;
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_full_ring_counts_what_it_refuses() {
        let memory = memory(4);
        // SAFETY: the memory holds a header and 4 slots, and outlives the ring.
        let ring = unsafe { Ring::new(memory.as_ptr(), 4) };
        let positions: Vec<u64> = std::iter::from_fn(|| ring.claim()).collect();
        assert_eq!((positions, ring.claim()), (vec![0, 1, 2, 3], None));
        assert_eq!(memory[LOST].load(Relaxed), 2);
        ring.commit(0, &[7; RECORD_WORDS]);
        assert_eq!(ring.claim(), None, "done is not read");
        // The reader has read it: the turn of the next lap.
        memory[ring.slot(0)].store(4, Relaxed);
        assert_eq!(ring.claim(), Some(4));
    }

    #[test]
    fn a_slot_that_was_given_up_is_not_marked_as_done() {
        let memory = memory(2);
        // SAFETY: as above, of 2 slots.
        let ring = unsafe { Ring::new(memory.as_ptr(), 2) };
        let late = ring.claim().expect("it is empty");
        memory[ring.slot(late)].store(2, Relaxed);
        ring.commit(late, &[1; RECORD_WORDS]);
        assert_eq!(memory[ring.slot(late)].load(Relaxed), 2);
    }

    #[test]
    fn a_ring_gone_wrong_holds_nobody() {
        let memory = memory(2);
        // SAFETY: as above.
        let ring = unsafe { Ring::new(memory.as_ptr(), 2) };
        // A turn that never comes.
        memory[ring.slot(0)].store(u64::MAX >> 1, Relaxed);
        assert_eq!((ring.claim(), memory[LOST].load(Relaxed)), (None, 1));
    }
}
