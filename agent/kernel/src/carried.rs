//! The BPF object, which this binary carries packed with zstd: unpacked it would be eight times as large, and
//! it is read once.

use std::io;

static PROBES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probes.zst"));

/// A BPF object whose program does nothing, against which hooks are measured.
pub static EMPTY: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/empty"));

/// The BPF object that build.rs made.
///
/// # Errors
/// The binary is damaged.
pub(crate) fn probes() -> io::Result<Vec<u8>> {
    zstd::decode_all(PROBES)
}
