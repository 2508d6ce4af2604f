//! Buffers for CUPTI's records: so many and no more. CUPTI drops, and counts, what finds no room.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{AcqRel, Acquire},
    },
};

use super::system;

/// Small, since CUPTI keeps a buffer until all work in it has ended.
const BUFFER_BYTES: usize = 64 << 10;
/// Together 4 MB: 200 ms of a decoder with 40,000 launches a second and ten other calls for each.
const BUFFERS: usize = 64;

static FIRST: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// A bit for each free buffer.
static FREE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Makes the buffers. False: there is no memory.
pub(crate) fn make() -> bool {
    if !FIRST.load(Acquire).is_null() {
        return true;
    }
    let Some(memory) = system::memory(BUFFERS * BUFFER_BYTES) else { return false };
    FIRST.store(memory.as_ptr(), core::sync::atomic::Ordering::Release);
    true
}

/// A free buffer and its size.
pub(crate) fn take() -> Option<(*mut u8, usize)> {
    let first = FIRST.load(Acquire);
    loop {
        let free = FREE.load(Acquire);
        let number = free.trailing_zeros();
        if first.is_null() || number as usize >= BUFFERS {
            return None;
        }
        if FREE.compare_exchange(free, free & !(1 << number), AcqRel, Acquire).is_ok() {
            // Inside the memory: below the number of buffers.
            return Some((first.wrapping_add(number as usize * BUFFER_BYTES), BUFFER_BYTES));
        }
    }
}

fn offset(buffer: *mut u8) -> Option<usize> {
    let first = FIRST.load(Acquire);
    let offset = buffer.addr().wrapping_sub(first.addr());
    (!first.is_null() && offset < BUFFERS * BUFFER_BYTES).then_some(offset)
}

/// Whether a buffer is one of these: another client's come here as well, if it relies on ours.
pub(crate) fn has(buffer: *mut u8) -> bool {
    offset(buffer).is_some()
}

/// CUPTI is done with a buffer.
pub(crate) fn give_back(buffer: *mut u8) {
    if let Some(offset) = offset(buffer) {
        FREE.fetch_or(1 << (offset / BUFFER_BYTES), AcqRel);
    }
}
