//! The probe point: one function that does nothing, and the note that tells tracers where it is. Yields the
//! wire contract with the agent: the six arguments for each operation. Threads, tokens and names are only
//! passed on.

/// Version of the wire contract, in bits 8-15 of the first argument.
pub const ABI_VERSION: u64 = 1;

/// The agent reads at most this many bytes of a name, so only these are made resident.
pub const NAME_BYTES_READ: usize = 64;

/// Operation of an edge; bits 0-7 of the first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// A phase began: name pointer, name length in bytes, request number (0: none), token of what it joins
    /// without a gap: the phase that ended here, or its own root, with which it began (0: none).
    Begin = 1,
    /// A request began: name pointer, name length in bytes, request number, scheduled time in ns (0: none).
    Request = 2,
    /// The phase of the token ended; token 0 means the innermost of this thread. 1, 2 or 3: the thread is
    /// inside no phase of this library then, inside another one, or inside as many as before. Token of a
    /// phase within it that ended here as well (0: none).
    End = 3,
    /// The phase of the token is suspended: from here on it is not charged this thread's time. Other
    /// arguments as for `End`.
    Leave = 4,
    /// The phase of the token continues, on this thread.
    Enter = 5,
    /// The root of the token joins a trace: trace id high and low half, parent span id.
    Context = 6,
    /// A header was made for the token: trace id high and low half, span id of the token.
    Identity = 7,
    /// Something happened: name pointer, name length in bytes. The token is 0.
    Mark = 8,
    /// The phase of the token gets another name: name pointer, name length in bytes (0: it keeps its own),
    /// status code (0: none).
    Rename = 9,
    /// A message of a source: text pointer, text length in bytes. The token is 0.
    Tell = 10,
}

/// First argument of an END: the thread is inside as many phases as before.
#[cfg(feature = "tracing")]
pub(crate) const AS_BEFORE: u64 = 3;

/// The last argument of a CONTEXT for the phase itself, not its root.
pub(crate) const OF_THE_PHASE: u64 = 1;

/// Bits of a length on the wire. Above them is the source of the edge, 0 for the program itself.
const LENGTH_BITS: u32 = 32;

/// Bit beside the source: the phase is a detail of an open one, and none by itself.
pub(crate) const DETAIL: u64 = 1 << 40;

/// A length and the source of the edge, as sent.
#[inline]
pub(crate) const fn with_source(source: u8, len: usize) -> u64 {
    let longest = (1 << LENGTH_BITS) - 1;
    let len = len as u64;
    (source as u64) << LENGTH_BITS | if len < longest { len } else { longest }
}

/// The length alone.
pub(crate) const fn length(argument: u64) -> u64 {
    argument & ((1 << LENGTH_BITS) - 1)
}

/// The first argument: operation, version, instance of the library, number of the edge in its thread.
#[must_use]
pub const fn head(operation: Operation, instance: u16, edge_number: u32) -> u64 {
    operation as u64 | ABI_VERSION << 8 | (instance as u64) << 16 | (edge_number as u64) << 32
}

/// Tells copies of the library in one process apart: bits of the address of a static of this copy, folded so
/// that both neighbouring pages and neighbouring mappings differ. Two copies collide once in 65,536.
#[must_use]
pub(crate) fn instance() -> u16 {
    static HERE: u8 = 0;
    let address = &raw const HERE as u64;
    let folded = ((address >> 12) ^ (address >> 28)) as u16;
    // All ones are reserved for the agent.
    if folded == u16::MAX { 1 } else { folded }
}

/// Fires the probe. `arguments` are the probe's second to sixth argument.
#[inline]
pub(crate) fn fire(head: u64, arguments: [u64; 5]) {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        unsafe extern "C" {
            fn guestscope_edge(head: u64, token: u64, a2: u64, a3: u64, a4: u64, a5: u64);
        }
        let [token, a2, a3, a4, a5] = arguments;
        // SAFETY: the function below takes any six integers, reads no memory and returns at once.
        unsafe { guestscope_edge(head, token, a2, a3, a4, a5) }
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = (head, arguments);
}

/// Makes the part of the name that the agent reads resident: a BPF program reads nothing from a page that is
/// not. The part is at most 64 bytes long, a page at least 4,096, so it lies in one page or two, and its
/// first and its last byte are in all of them.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[inline]
pub(crate) unsafe fn touch(name: *const u8, len: usize) -> usize {
    if name.is_null() || len == 0 {
        return 0;
    }
    let last = len.min(NAME_BYTES_READ) - 1;
    // SAFETY: the caller guarantees `len` bytes, and both offsets are below it.
    unsafe {
        name.read_volatile();
        name.add(last).read_volatile();
    }
    len
}

// The function and its note form a separate section group, so that the linker keeps or drops both, and keeps
// one copy if two copies of this crate meet in one program. Two nops on x86-64: kernels from 6.18 on turn a
// probe on the 5-byte nop into a call (about 100 ns), older ones emulate the 1-byte nop and single-step the
// other; the note names the 1-byte nop, which every tool can take. Seven bytes aligned to 8 lie in one page.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! probe_point {
    ($body:literal, $arguments:literal) => {
        core::arch::global_asm!(
            ".pushsection .text.guestscope_edge,\"axG\",%progbits,guestscope_edge,comdat",
            ".balign 8",
            ".globl guestscope_edge",
            ".hidden guestscope_edge",
            ".type guestscope_edge,%function",
            "guestscope_edge:",
            $body,
            ".size guestscope_edge, .-guestscope_edge",
            ".popsection",
            ".pushsection .stapsdt.base,\"aG\",%progbits,.stapsdt.base,comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".pushsection .note.stapsdt,\"G\",%note,guestscope_edge,comdat",
            ".balign 4",
            ".4byte 992f-991f, 994f-993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte guestscope_edge",
            ".8byte _.stapsdt.base",
            ".8byte 0",
            ".asciz \"guestscope\"",
            ".asciz \"edge\"",
            concat!(".asciz \"", $arguments, "\""),
            "994: .balign 4",
            ".popsection",
        );
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
probe_point!("nop\n.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\nret", "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9");

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
probe_point!("nop\nret", "8@x0 8@x1 8@x2 8@x3 8@x4 8@x5");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_and_its_source_come_back() {
        assert_eq!(with_source(7, 3), 7 << 32 | 3);
        assert_eq!((length(with_source(7, 3)), length(with_source(255, usize::MAX))), (3, 0xffff_ffff));
    }

    #[test]
    fn head_packs_its_four_fields() {
        assert_eq!(head(Operation::Mark, 0xabcd, 0x1234_5678), 0x1234_5678_abcd_0108);
        assert_eq!(head(Operation::Begin, 0, 1), 0x0000_0001_0000_0101);
    }
}
