//! Free space on a file system that others use too: the agent's writes on behalf of a program leave some of
//! it.

use std::{fs::File, io};

use nix::sys::statvfs::fstatvfs;

/// Most bytes kept free.
const RESERVE_BYTES: u64 = 1 << 30;

/// Bytes to keep free on a file system of this size.
pub fn reserve(total_bytes: u64) -> u64 {
    (total_bytes / 20).min(RESERVE_BYTES)
}

/// Checks that `bytes` more bytes leave the reserve free on this file's file system. Blocks reserved for root
/// do not count as free.
///
/// # Errors
/// They do not, or the free space of the file system cannot be read.
pub fn has_room(file: &File, bytes: u64) -> io::Result<()> {
    let stats = fstatvfs(file)?;
    // Some file systems report no size.
    if stats.blocks() == 0 {
        return Ok(());
    }
    let block = stats.fragment_size();
    let (free, reserve) = (stats.blocks_available() * block, reserve(stats.blocks() * block));
    if free >= reserve.saturating_add(bytes) {
        return Ok(());
    }
    let text =
        format!("No space left on device but what is kept for others: {free} bytes are free of {reserve}");
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_is_kept_and_no_more_than_a_gibibyte() {
        assert_eq!([2_000, 100 << 30].map(reserve), [100, 1 << 30]);
    }

    #[test]
    fn what_is_larger_than_the_disk_has_no_room() {
        let file = tempfile::tempfile().expect("a file can be made");
        assert!(has_room(&file, 0).is_ok());
        let error = has_room(&file, u64::MAX).expect_err("no disk is so large");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
