//! Names of kernels: each is copied when CUPTI first tells it, and sent once. Work means it by a number.
//!
//! CUPTI's own text is there only as long as the kernel's code is loaded.

use core::{ffi::c_char, ptr::NonNull};

use guestscope_cupti::NAME_BYTES;

use super::system;

/// Names that are known to have been sent, a power of two; the others are sent again and again.
const NAMES: usize = 1 << 12;
/// Room for copies that wait to be sent.
const COPIES: usize = 1 << 20;
/// FNV-1a, 64 bits (Fowler, Noll, Vo).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// A copy that waits to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub(crate) id: u64,
    offset: usize,
    length: usize,
}

/// Names that were seen, and copies of new ones.
pub(crate) struct Names {
    seen: NonNull<u64>,
    copies: NonNull<u8>,
    used: usize,
}

impl Names {
    pub(crate) fn make() -> Option<Self> {
        let seen = system::memory(NAMES * size_of::<u64>())?.cast();
        Some(Self { seen, copies: system::memory(COPIES)?, used: 0 })
    }

    /// The number of a name, 0 for none, and its copy where it is new.
    ///
    /// # Safety
    /// Null, or a C string.
    pub(crate) unsafe fn meet(&mut self, text: *const c_char) -> (u64, Option<Copied>) {
        if text.is_null() {
            return (0, None);
        }
        let (bytes, mut id, mut length) = (text.cast::<u8>(), BASIS, 0);
        while length < NAME_BYTES {
            // SAFETY: not behind the zero that ends the string.
            let byte = unsafe { *bytes.add(length) };
            if byte == 0 {
                break;
            }
            id = (id ^ u64::from(byte)).wrapping_mul(PRIME);
            length += 1;
        }
        // 0 means no name.
        let id = id.max(1);
        // SAFETY: within the memory, which is aligned to pages, zeroed and used here alone.
        let entry = unsafe { self.seen.add(id as usize & (NAMES - 1)).as_mut() };
        if *entry == id || self.used + length > COPIES {
            return (id, None);
        }
        *entry = id;
        let copied = Copied { id, offset: self.used, length };
        // SAFETY: the string has so many bytes, and there is room for them.
        unsafe { self.copies.add(self.used).as_ptr().copy_from_nonoverlapping(bytes, length) };
        self.used += length;
        (id, Some(copied))
    }

    /// The bytes of a copy, into this room; returns how many.
    pub(crate) fn bytes(&self, copied: Copied, into: &mut [u8; NAME_BYTES]) -> usize {
        let length = copied.length.min(NAME_BYTES);
        // SAFETY: a copy that was made here, and room for it.
        unsafe {
            into.as_mut_ptr().copy_from_nonoverlapping(self.copies.add(copied.offset).as_ptr(), length);
        }
        length
    }

    /// No copy waits any more.
    pub(crate) fn sent(&mut self) {
        self.used = 0;
    }
}
