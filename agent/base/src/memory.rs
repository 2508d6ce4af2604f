//! The last limit of the commands that read run folders of others: a bound on memory, then an error and the
//! end.
//!
//! Reads have their own bounds, with better messages. This bound is for unforeseen cases: without it the
//! kernel would kill this process or another one, or a failed allocation would abort it. `run` and `attach`
//! set no limit.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes that these commands may allocate: the program itself, 20 MB, and the buffers of compression come on
/// top.
const MOST_BYTES: usize = 256 << 20;

/// Error text; a constant, since no memory is left to format another one.
const TOLD: &[u8] = b"error: too much memory is needed: more than 256 MiB\n\nhint: name fewer or shorter runs; a single folder that needs so \
much was not written by guestscope\n";

/// Bytes allocated, and the limit.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The same alignment, another size.
const fn resized(layout: Layout, bytes: usize) -> Layout {
    // SAFETY: `realloc` is called with sizes that are valid with this alignment alone.
    unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) }
}

/// Upper bound of the memory that an allocator uses for a layout: it has size classes and headers, and for
/// many short strings they are most of the total.
const fn taken(layout: Layout) -> usize {
    // An alignment above the usual one is met by allocating as many bytes more.
    let bytes = layout.size() + if layout.align() > 16 { layout.align() } else { 0 };
    if cfg!(target_env = "musl") { taken_of_musl(bytes) } else { taken_of_glibc(bytes) }
}

/// musl 1.2.1 and later (mallocng): a header of 4 bytes, sizes in steps of 16 bytes, then four per power of
/// two, groups of these with headers; pages from 128 kB on.
const fn taken_of_musl(bytes: usize) -> usize {
    const LARGE: usize = 131_052;
    const EXACT_UNITS: usize = 10;
    if bytes >= LARGE {
        return (bytes + 32).next_multiple_of(4096);
    }
    let units = (bytes + 4).div_ceil(16);
    let units = if units > EXACT_UNITS { units + units / 4 } else { units };
    units * 16 + units * 2
}

/// glibc: a header of 8 bytes, steps of 16 bytes, and a remainder too small to split off; from 128 kB on it
/// may be pages.
const fn taken_of_glibc(bytes: usize) -> usize {
    const LARGE: usize = 128 << 10;
    if bytes >= LARGE { (bytes + 16).next_multiple_of(4096) } else { (bytes + 8).next_multiple_of(16) + 16 }
}

/// The system's allocator, with a count of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

/// Limits the program to 256 MiB from now on: an allocation beyond ends it.
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
        take(taken(layout));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(taken(layout));
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // The block may move; both copies exist during the move.
        take(taken(resized(layout, bytes)));
        TAKEN.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of mallocng, in units of 16 bytes (musl 1.2.5, `src/malloc/mallocng/malloc.c`, `size_classes`).
    const CLASSES: [usize; 48] = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170,
        204, 255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095,
        4680, 5460, 6552, 8191,
    ];

    #[test]
    fn what_is_counted_is_no_less_than_what_musl_takes() {
        for bytes in 0..131_052 {
            let slot = CLASSES.into_iter().find(|units| units * 16 >= bytes + 4).unwrap() * 16;
            let (counted, group) = (taken_of_musl(bytes), slot / 31);
            assert!(counted >= slot + group.min(16), "{bytes}: {counted}, and {slot} are taken");
            assert!(counted <= 2 * slot, "{bytes}: {counted}, and only {slot} are taken");
        }
        assert_eq!(taken_of_musl(1 << 20), (1 << 20) + 4096);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_counted_is_no_less_than_what_glibc_takes() {
        for bytes in (1..5_000).chain([131_000, 131_072, 1 << 20, 5 << 20]) {
            let layout = Layout::from_size_align(bytes, 1).unwrap();
            // SAFETY: the size is not zero; what is had is asked for its size, and given back once.
            let usable = unsafe {
                let pointer = System.alloc(layout);
                let usable = libc::malloc_usable_size(pointer.cast());
                System.dealloc(pointer, layout);
                usable
            };
            assert!(taken(layout) >= usable + 8, "{bytes}: {}, and {usable} can be used", taken(layout));
        }
    }
}
