//! The library for NVTX and ITT, which this binary carries packed with zstd: it is read once at most.

use std::io;

static INJECTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope_inject.so.zst"));

/// The library that NVTX and ITT load.
///
/// # Errors
/// The binary is damaged.
pub(crate) fn injection() -> io::Result<Vec<u8>> {
    zstd::decode_all(INJECTION)
}
