//! Room on a file system that others use too: what the agent writes because of a program leaves some of it.

use std::{fs::File, io};

use nix::sys::statvfs::fstatvfs;

/// At most so much is kept free.
const RESERVE_BYTES: u64 = 1 << 30;

/// Bytes that stay free on a file system of so many.
pub fn reserve(total_bytes: u64) -> u64 {
    (total_bytes / 20).min(RESERVE_BYTES)
}

/// Whether so many bytes more leave the reserve free where this file is. What is kept for root alone does not
/// count as free.
///
/// # Errors
/// They do not, or the file system does not tell.
pub fn has_room(file: &File, bytes: u64) -> io::Result<()> {
    let stats = fstatvfs(file)?;
    // Some file systems have no size.
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
