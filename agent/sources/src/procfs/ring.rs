//! The agent's end of the ring: shared memory that cannot shrink, with a single reader.
//!
//! Each word is read once, by an atomic load, into private memory: programs that share it may write anything
//! at any time. A slot that is never finished blocks the reader for a bounded time. The words are interpreted
//! elsewhere.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr::NonNull,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

/// The same values as in the marker library, which depends on nothing, and so has its own copies; a test
/// compares them.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"gscoper1");
pub(super) const HEADER_BYTES: usize = 4096;
pub(super) const HEAD: usize = 16;
pub(super) const LOST: usize = 32;
pub(super) const TAKEN: usize = 48;
pub(super) const SLOT_WORDS: usize = 32;
pub(super) const RECORD_WORDS: usize = 24;

/// A record.
pub(super) type Words = [u64; RECORD_WORDS];

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    descriptor: OwnedFd,
    memory: NonNull<AtomicU64>,
    bytes: usize,
    slots: u64,
    /// Position of the next record to be read.
    tail: u64,
    /// The slot there is claimed and not done: since when, and the head at that time.
    stuck: Option<(Instant, u64)>,
    /// Slots that were given up, and slots without a whole record.
    pub(super) unfinished: u64,
}

impl Ring {
    /// Makes an empty ring of `slots` slots, a power of two.
    pub(super) fn new(slots: usize) -> io::Result<Self> {
        if !slots.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = HEADER_BYTES + slots * SLOT_WORDS * 8;
        let descriptor = memory()?;
        let number = descriptor.as_raw_fd();
        // SAFETY: takes integers.
        checked(unsafe { libc::ftruncate(number, bytes as libc::off_t) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes integers.
        checked(unsafe { libc::fcntl(number, libc::F_ADD_SEALS, seals) })?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, number, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let slots = slots as u64;
        let ring = Self { descriptor, memory, bytes, slots, tail: 0, stuck: None, unfinished: 0 };
        ring.word(1).store(slots, Relaxed);
        ring.word(0).store(MAGIC, Release);
        Ok(ring)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Edges for which there was no slot, as their writers counted.
    pub(super) fn lost(&self) -> u64 {
        self.word(LOST).load(Relaxed)
    }

    /// Programs that have taken the ring, as they counted.
    pub(super) fn taken(&self) -> u64 {
        self.word(TAKEN).load(Relaxed)
    }

    /// The library's end, which writes.
    #[cfg(test)]
    pub(super) fn writer(&self) -> guestscope_marker::ring::Ring {
        // SAFETY: the memory is a ring of so many slots; tests keep it longer than what they write with.
        unsafe { guestscope_marker::ring::Ring::new(self.memory.as_ptr(), self.slots) }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / 8);
        // SAFETY: the index lies inside the mapping, which is as long as `self`, aligned, and cannot shrink.
        // Others write there too, and atomics are all that is ever made of it.
        unsafe { self.memory.add(index).as_ref() }
    }

    fn slot(&self, position: u64) -> usize {
        HEADER_BYTES / 8 + (position & (self.slots - 1)) as usize * SLOT_WORDS
    }

    /// Head of the ring. At most a whole ring is ahead, whatever the shared word claims.
    pub(super) fn claimed(&self) -> u64 {
        self.tail.wrapping_add(self.waiting().min(self.slots))
    }

    /// Whether everything before this position was read or given up.
    pub(super) fn is_past(&self, position: u64) -> bool {
        position.wrapping_sub(self.tail).cast_signed() <= 0
    }

    /// Slots claimed and not read; an impossible number counts as none.
    fn waiting(&self) -> u64 {
        let waiting = self.word(HEAD).load(Acquire).wrapping_sub(self.tail);
        if waiting > u64::MAX / 2 { 0 } else { waiting }
    }

    /// The next whole record. A slot that is unfinished after `patience` is skipped, together with all slots
    /// that were claimed by then. Each call skips at most the whole ring, whatever its head claims.
    pub(super) fn next(&mut self, patience: Duration) -> Option<Words> {
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

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references into it live no longer than `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the pointer is to shared memory that is only used through atomics.
unsafe impl Send for Ring {}

/// A sealable file in memory. Not executable where the kernel has MFD_NOEXEC_SEAL (6.3 and later), since it
/// may allow no other (vm.memfd_noexec=2).
fn memory() -> io::Result<OwnedFd> {
    let make = |flags: libc::c_uint| {
        let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        checked(unsafe { libc::memfd_create(c"guestscope-edges".as_ptr(), flags) })
    };
    let descriptor = make(libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => make(0),
        _ => Err(error),
    })?;
    // SAFETY: just created, and not used elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same checksum as the library's.
pub(super) fn checksum(position: u64, record: &Words) -> u64 {
    record
        .iter()
        .fold(position ^ MAGIC, |sum, word| (sum ^ word).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests;
