//! Values copied and cleared word by word.

/// Copies a value of a map word by word: a plain assignment of a ledger's 320 bytes would be a loop over
/// bytes, and one of less would take its size of the program's stack. Volatile, because a switch of its own
/// thread may change the value.
///
/// # Safety
/// Both must point to whole values, of whole words.
#[inline(always)]
pub(crate) unsafe fn copy<T>(from: *const T, to: *mut T) {
    let (from, to): (*const u64, *mut u64) = (from.cast(), to.cast());
    let mut word = 0;
    while word < size_of::<T>() / 8 {
        // SAFETY: the caller promised both, and the index stays inside them.
        unsafe { core::ptr::write_volatile(to.add(word), core::ptr::read_volatile(from.add(word))) };
        word += 1;
    }
}

/// Zeroes a value of a map, word by word for the same reason.
///
/// # Safety
/// It must point to a whole value, of whole words.
#[inline(always)]
pub(crate) unsafe fn clear<T>(value: *mut T) {
    let words: *mut u64 = value.cast();
    let mut word = 0;
    while word < size_of::<T>() / 8 {
        // SAFETY: the caller promised it, and the index stays inside.
        unsafe { core::ptr::write_volatile(words.add(word), 0) };
        word += 1;
    }
}
