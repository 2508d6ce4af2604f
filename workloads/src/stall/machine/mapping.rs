//! Mapped memory that is unmapped when dropped: anonymous, or the pages of a file. Yields single touches and
//! which pages are resident. It never holds a reference into the memory, so another writer cannot break one.

use std::{fs::File, os::fd::AsRawFd as _, ptr};

use nix::errno::Errno;

use crate::stall::error::StallError;

/// Bytes of a page, as this system counts them.
pub fn page_bytes() -> usize {
    // SAFETY: takes an integer only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// A mapping of whole pages.
#[derive(Debug)]
pub struct Mapping {
    memory: *mut u8,
    pages: usize,
    page_bytes: usize,
}

impl Mapping {
    /// New memory in small pages, none of them present yet.
    pub fn anonymous(pages: usize) -> Result<Self, StallError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // Without the advice a huge page may come with the first touch and spare the other 511 faults.
        Self::new(pages, libc::PROT_READ | libc::PROT_WRITE, flags, -1, libc::MADV_NOHUGEPAGE)
    }

    /// The first pages of a file, each read on its own: the advice keeps the kernel from reading ahead.
    pub fn of_file(file: &File, pages: usize) -> Result<Self, StallError> {
        Self::new(pages, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), libc::MADV_RANDOM)
    }

    fn new(pages: usize, protection: i32, flags: i32, fd: i32, advice: i32) -> Result<Self, StallError> {
        let page_bytes = page_bytes();
        let bytes = pages * page_bytes;
        // SAFETY: a new mapping, whose address the kernel chooses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(StallError::call("mmap")(Errno::last()));
        }
        // SAFETY: the range is the mapping. Advice may be refused (EINVAL without huge pages in the kernel).
        unsafe { libc::madvise(memory, bytes, advice) };
        Ok(Self { memory: memory.cast(), pages, page_bytes })
    }

    /// Writes to each page, in order. Only for anonymous memory.
    pub fn write_each(&mut self) {
        for page in 0..self.pages {
            // SAFETY: inside the mapping, which is writable where it is anonymous, and nobody refers into it.
            unsafe { self.memory.add(page * self.page_bytes).write_volatile(1) };
        }
    }

    /// Reads from each page, in order.
    pub fn read_each(&self) {
        for page in 0..self.pages {
            // SAFETY: inside the mapping; the file behind it is not shortened while it is mapped.
            unsafe { self.memory.add(page * self.page_bytes).read_volatile() };
        }
    }

    /// How many of the pages are in memory, mapped or not.
    pub fn resident(&self) -> Result<usize, StallError> {
        let mut answer = vec![0_u8; self.pages];
        let bytes = self.pages * self.page_bytes;
        // SAFETY: the range is the mapping, and the answer has a byte for each of its pages.
        let result = unsafe { libc::mincore(self.memory.cast(), bytes, answer.as_mut_ptr().cast()) };
        Errno::result(result).map_err(StallError::call("mincore"))?;
        Ok(answer.iter().filter(|byte| **byte & 1 == 1).count())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers into it.
        unsafe { libc::munmap(self.memory.cast(), self.pages * self.page_bytes) };
    }
}
