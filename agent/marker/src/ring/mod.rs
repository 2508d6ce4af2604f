//! The path of edges to an agent without BPF: a ring of slots in memory that the agent shares.
//!
//! Yields whole records or none. A thread claims a slot by moving the ring's head, writes, and marks the slot
//! as done; it never waits, and if the ring is full its edge is only counted there. Without a ring an edge
//! costs one load and a jump that is not taken. The words of a record are deliberately opaque here.

mod atomic;
mod slots;

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

pub use self::slots::{
    HEAD, HEADER_BYTES, LOST, MAGIC, RECORD_WORDS, Ring, SLOT_WORDS, TAKEN, UNKNOWN, checksum,
};
use crate::syscall;

/// Slots of the largest ring that is mapped: 1 GiB.
const SLOTS_MOST: usize = 1 << 22;

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
/// gets a ring that it has already. `image` tells this program from the next one.
#[cold]
pub(crate) fn adopt(descriptor: usize, image: impl FnOnce() -> u64) {
    if current().is_none()
        && let Some(ring) = map(descriptor)
    {
        IMAGE.store(image(), Relaxed);
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
