//! Trace and span IDs, derived from the process's seed, and the W3C `traceparent` header made of them. Yields
//! the same IDs for the same seed and token, as pure arithmetic, so that nothing need be stored per phase.
//! The seed is deliberately not a secret: IDs are unique, not unguessable.

/// Length of a `traceparent` header: version, trace id, span id, flags.
pub const HEADER_BYTES: usize = 55;

/// A trace id as two big-endian halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

impl TraceId {
    /// All zero is no trace id in W3C Trace Context.
    pub(crate) fn is_valid(self) -> bool {
        self.high | self.low != 0
    }
}

/// Spreads every bit of `word` over all of the result and back: a bijection, so that tokens of one process
/// never share an id. The constants are David Stafford's thirteenth variant of the MurmurHash3 finaliser.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The trace id of a root that joined no trace.
pub(crate) fn derived_trace(seed: [u64; 2], root: u64) -> TraceId {
    let id = TraceId { high: mix(seed[0] ^ root), low: mix(seed[1] ^ mix(root)) };
    if id.is_valid() { id } else { TraceId { high: id.high, low: 1 } }
}

/// The span id of a token, never zero.
pub(crate) fn span(seed: [u64; 2], token: u64) -> u64 {
    mix(mix(seed[0]) ^ seed[1] ^ token).max(1)
}

/// `00-<trace id>-<span id>-01` in lower-case hexadecimal.
pub(crate) fn header(trace: TraceId, span: u64) -> [u8; HEADER_BYTES] {
    let mut text = *b"00-................................-................-01";
    for (offset, word) in [(3, trace.high), (19, trace.low), (36, span)] {
        for digit in 0..16 {
            let nibble = (word >> (60 - 4 * digit)) as u8 & 15;
            text[offset + digit] = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
    }
    text
}
