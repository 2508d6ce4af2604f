//! Files that this binary carries, packed with zstd: unpacked they would be a tenth of the binary, and each
//! is read once at most.

use std::io;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guestscope-nvml.zst"));

static CUPTI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope_cupti_inject.so.zst"));

/// The library that asks CUPTI inside a CUDA program.
///
/// # Errors
/// The binary is damaged.
pub(crate) fn cupti() -> io::Result<Vec<u8>> {
    zstd::decode_all(CUPTI)
}

/// The program that loads NVIDIA's library; none where the build could not make it, which needs a C library
/// for the target.
///
/// # Errors
/// The binary is damaged.
pub(crate) fn program() -> io::Result<Option<Vec<u8>>> {
    let program = zstd::decode_all(PROGRAM)?;
    Ok((!program.is_empty()).then_some(program))
}
