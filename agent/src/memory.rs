//! The last limit of the verbs that read what others made: so much memory, then an error and the end.
//!
//! What is read is bounded where it is read, with better words. This is for what nobody thought of: without it the kernel would
//! kill the process, or another one, and an allocation that fails would abort it. `run` and `attach` set no limit.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes that these verbs may take from the allocator: beside them stand the program itself, 20 MB, and what compression takes.
const MOST_BYTES: usize = 256 << 20;

/// What a person is told; no memory can be had for other words.
const TOLD: &[u8] = b"error: too much memory is needed: more than 256 MiB\n\nhint: name fewer or shorter runs; a single folder that needs so \
much was not written by guestscope\n";

/// Bytes that are taken, and those that may be.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

/// From now on more than 256 MiB end the program.
pub fn limit() {
    MOST.store(MOST_BYTES, Ordering::Relaxed);
}

fn take(bytes: usize) {
    let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if taken > MOST.load(Ordering::Relaxed) {
        give_up();
    }
}

#[cold]
fn give_up() -> ! {
    // SAFETY: the bytes are a constant; neither call takes memory or locks. 2 is the code of all errors.
    unsafe {
        libc::write(libc::STDERR_FILENO, TOLD.as_ptr().cast(), TOLD.len());
        libc::_exit(2)
    }
}

// SAFETY: all is handed to the system's allocator as it came; the counting changes nothing of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // It may be moved, and is there twice meanwhile.
        take(bytes);
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
