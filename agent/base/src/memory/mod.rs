//! The last limit of the commands that read run folders of others: a bound on memory, then an error and the
//! end.
//!
//! Reads have their own bounds, with better messages. This bound is for unforeseen cases: without it the
//! kernel would kill this process or another one, or a failed allocation would abort it. `run` and `attach`
//! set no limit.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering},
};

#[cfg(target_env = "musl")]
mod by_size;

#[cfg(target_env = "musl")]
use by_size::BySize as Inner;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Inner;

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
    // From 128 kB on both give pages, with a header.
    if bytes >= LARGE {
        (bytes + 32).next_multiple_of(4096)
    } else if cfg!(target_env = "musl") {
        taken_of_dlmalloc(bytes)
    } else {
        taken_of_glibc(bytes)
    }
}

/// glibc: a header of 8 bytes, steps of 16 bytes, and a remainder too small to split off.
const fn taken_of_glibc(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16) + 16
}

/// dlmalloc, from which glibc's comes, the same; and what is left of its regions of 64 kB.
const fn taken_of_dlmalloc(bytes: usize) -> usize {
    let left = if bytes < 4096 { bytes / 16 } else { bytes };
    taken_of_glibc(bytes) + left
}

/// From here on blocks have pages of their own, which go back to the kernel when the block is freed.
const LARGE: usize = 128 << 10;

/// The allocator, with a count of bytes.
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

// SAFETY: all is handed to the allocator as it came; the counting changes nothing of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(taken(layout));
        // SAFETY: as the caller promises.
        unsafe { Inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(taken(layout));
        // SAFETY: as the caller promises.
        unsafe { Inner.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { Inner.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // The block may move; both copies exist during the move.
        take(taken(resized(layout, bytes)));
        TAKEN.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { Inner.realloc(pointer, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Hands out pages, each region below the one before, as Linux maps them.
    struct Pages {
        begin: usize,
        handed_out: Arc<AtomicUsize>,
    }

    impl Pages {
        const BYTES: usize = 64 << 20;

        fn new(handed_out: &Arc<AtomicUsize>) -> Self {
            let layout = Layout::from_size_align(Self::BYTES, 4096).unwrap();
            // SAFETY: the size is not zero. It is never freed.
            let begin = unsafe { std::alloc::alloc_zeroed(layout) }.expose_provenance();
            Self { begin, handed_out: Arc::clone(handed_out) }
        }
    }

    // SAFETY: the regions are fresh, as large as is said, and never given back.
    unsafe impl dlmalloc::Allocator for Pages {
        fn alloc(&self, bytes: usize) -> (*mut u8, usize, u32) {
            let all = self.handed_out.fetch_add(bytes, Ordering::Relaxed) + bytes;
            assert!(all <= Self::BYTES, "{all}");
            (std::ptr::with_exposed_provenance_mut(self.begin + Self::BYTES - all), bytes, 0)
        }

        fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
            std::ptr::null_mut()
        }

        fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
            false
        }

        fn free(&self, _: *mut u8, _: usize) -> bool {
            false
        }

        fn can_release_part(&self, _: u32) -> bool {
            false
        }

        fn allocates_zeros(&self) -> bool {
            true
        }

        fn page_size(&self) -> usize {
            4096
        }
    }

    /// The static agent's small blocks.
    #[test]
    fn what_is_counted_is_no_less_than_what_dlmalloc_takes() {
        for bytes in [1, 23, 24, 25, 40, 100, 1_000, 4_000, 5_000, 20_000, 22_000, 33_000, 66_000, LARGE - 1]
        {
            let handed_out = Arc::new(AtomicUsize::new(0));
            let mut blocks = dlmalloc::Dlmalloc::new_with_allocator(Pages::new(&handed_out));
            let many = (4 << 20) / bytes.max(16);
            for _ in 0..many {
                // SAFETY: the block is never used, nor given back.
                assert!(!unsafe { blocks.malloc(bytes, 8) }.is_null());
            }
            let counted = many * taken_of_dlmalloc(bytes);
            let had = handed_out.load(Ordering::Relaxed);
            // A region more than is used yet, of steps of 64 kB.
            let most = counted + (256 << 10);
            assert!(had <= most, "{bytes}: {counted} are counted, and {had} are taken");
        }
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_counted_is_no_less_than_what_glibc_takes() {
        for bytes in (1..5_000).chain([131_000, 131_072, 1 << 20, 5 << 20]) {
            let layout = Layout::from_size_align(bytes, 1).unwrap();
            // SAFETY: the size is not zero; what is had is asked for its size, and given back once.
            let usable = unsafe {
                let pointer = Inner.alloc(layout);
                let usable = libc::malloc_usable_size(pointer.cast());
                Inner.dealloc(pointer, layout);
                usable
            };
            assert!(taken(layout) >= usable + 8, "{bytes}: {}, and {usable} can be used", taken(layout));
        }
    }
}
