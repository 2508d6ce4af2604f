//! The marker's calls as this library makes them: with the source, and names as slices. Yields tokens. It is
//! deliberately independent of NVTX and ITT.

use guestscope_marker::call;

/// Source of a phase, as the contract numbers it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Nvtx = 3,
    Itt = 4,
}

/// Begins a phase on this thread.
#[inline]
pub(crate) fn begin(source: Source, name: Name<'_>, number: u64) -> u64 {
    // SAFETY: a name is readable as far as it is read: the library reads its first 64 bytes.
    unsafe { call::begin_from(source as u8, name.bytes.as_ptr(), name.length, number) }
}

/// Begins a phase that is a detail of this thread's open one.
#[inline]
pub(crate) fn begin_detail(source: Source, name: Name<'_>) -> u64 {
    // SAFETY: as above.
    unsafe { call::begin_detail(source as u8, name.bytes.as_ptr(), name.length, 0) }
}

/// Marks an event on this thread.
#[inline]
pub(crate) fn mark(name: Name<'_>) {
    // SAFETY: as above.
    unsafe { call::mark(name.bytes.as_ptr(), name.length) }
}

/// Sends a message of a source.
#[cold]
pub(crate) fn tell(source: Source, text: &[u8]) {
    // SAFETY: pointer and length are those of a slice.
    unsafe { call::tell(source as u8, text.as_ptr(), text.len()) }
}

/// The first bytes of a name, and its length: more than `NAME_BYTES` where it was cut.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) length: usize,
}

impl Name<'static> {
    pub(crate) const UNNAMED: Self = Self { bytes: b"(unnamed)", length: 9 };
}
