//! Parts of a token: thread ordinal (20 bits), root counter of that thread (26), child counter within the
//! root (18). Yields tokens and their parts, as pure arithmetic.
//! It deliberately keeps no state: `thread` counts.

/// Bits of the child counter; 0 there is the root itself.
pub const CHILD_BITS: u32 = 18;
/// Bits of the root counter.
pub const ROOT_BITS: u32 = 26;
/// Bits of the thread ordinal, which is never 0; hence no token is 0.
pub const THREAD_BITS: u32 = 20;

const _: () = assert!(CHILD_BITS + ROOT_BITS + THREAD_BITS == 64);

/// Packs the three parts; each is cut to its width, so all three counters wrap.
#[must_use]
pub const fn pack(thread: u64, root: u64, child: u64) -> u64 {
    (thread & mask(THREAD_BITS)) << (ROOT_BITS + CHILD_BITS)
        | (root & mask(ROOT_BITS)) << CHILD_BITS
        | child & mask(CHILD_BITS)
}

/// The token of the root that `token` belongs to.
#[must_use]
pub const fn root(token: u64) -> u64 {
    token & !mask(CHILD_BITS)
}

/// Whether `token` is a root.
#[must_use]
pub const fn is_root(token: u64) -> bool {
    token != 0 && token & mask(CHILD_BITS) == 0
}

/// The lowest `bits` bits.
pub(crate) const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}
