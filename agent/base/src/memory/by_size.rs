//! The static agent's allocator: dlmalloc for small blocks, the system's for large ones.
//!
//! musl's allocator gives groups of blocks of some kB back to the kernel at once: an agent that saw 1,000
//! requests a second made 2,700 calls of mmap and munmap for them, half of its CPU time. dlmalloc keeps what
//! lies between used blocks, so large ones, such as a kernel's BTF, are left to musl, which maps each alone.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
};

use dlmalloc::GlobalDlmalloc;

use super::{LARGE, resized};

/// An allocator by the size of blocks.
pub(super) struct BySize;

const fn is_large(bytes: usize) -> bool {
    bytes >= LARGE
}

// SAFETY: each block is freed and resized by the allocator that its size tells, which made it.
unsafe impl GlobalAlloc for BySize {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { if is_large(layout.size()) { System.alloc(layout) } else { GlobalDlmalloc.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe {
            if is_large(layout.size()) {
                System.alloc_zeroed(layout)
            } else {
                GlobalDlmalloc.alloc_zeroed(layout)
            }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe {
            if is_large(layout.size()) {
                System.dealloc(pointer, layout);
            } else {
                GlobalDlmalloc.dealloc(pointer, layout);
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises; a block that moves has the smaller of both sizes in common.
        unsafe {
            match (is_large(layout.size()), is_large(bytes)) {
                (true, true) => System.realloc(pointer, layout, bytes),
                (false, false) => GlobalDlmalloc.realloc(pointer, layout, bytes),
                _ => {
                    let moved = self.alloc(resized(layout, bytes));
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(pointer, moved, layout.size().min(bytes));
                        self.dealloc(pointer, layout);
                    }
                    moved
                }
            }
        }
    }
}
