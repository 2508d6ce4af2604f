//! The agent's end of the ring: shared memory that cannot shrink, with a single reader.
//!
//! Each word is read once, by an atomic load, into private memory: programs that share it may write anything
//! at any time. A slot that is never finished blocks the reader for a bounded time. The words are interpreted
//! elsewhere.

mod atomic;
mod reader;

use std::{
    io,
    ops::{Deref, DerefMut},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr::NonNull,
};

use atomic::AtomicU64;
use reader::Reader;
pub(super) use reader::{HEADER_BYTES, SLOT_WORDS, Words};

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    descriptor: OwnedFd,
    reader: Reader,
    memory: NonNull<AtomicU64>,
    bytes: usize,
}

impl Ring {
    /// Makes an empty ring of `slots` slots, a power of two.
    pub(super) fn new(slots: usize) -> io::Result<Self> {
        if !slots.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = HEADER_BYTES + slots * SLOT_WORDS * 8;
        let descriptor = memory()?;
        let number = descriptor.as_raw_fd();
        // SAFETY: takes integers.
        checked(unsafe { libc::ftruncate(number, bytes as libc::off_t) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes integers.
        checked(unsafe { libc::fcntl(number, libc::F_ADD_SEALS, seals) })?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, number, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: the mapping has so many bytes, cannot shrink, and is given back when the ring is dropped;
        // the number was looked at.
        let reader = unsafe { Reader::new(memory, slots) };
        Ok(Self { descriptor, reader, memory, bytes })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The library's end, which writes.
    #[cfg(test)]
    pub(super) fn writer(&self) -> guestscope_marker::ring::Ring {
        // SAFETY: the memory is a ring of so many slots; tests keep it longer than what they write with.
        unsafe {
            guestscope_marker::ring::Ring::new(
                self.memory.as_ptr(),
                ((self.bytes - HEADER_BYTES) / 8 / SLOT_WORDS) as u64,
            )
        }
    }
}

impl Deref for Ring {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl DerefMut for Ring {
    fn deref_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references into it live no longer than `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the pointer is to shared memory that is only used through atomics.
unsafe impl Send for Ring {}

/// A sealable file in memory. Not executable where the kernel has MFD_NOEXEC_SEAL (6.3 and later), since it
/// may allow no other (vm.memfd_noexec=2).
fn memory() -> io::Result<OwnedFd> {
    let make = |flags: libc::c_uint| {
        let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        checked(unsafe { libc::memfd_create(c"guestscope-edges".as_ptr(), flags) })
    };
    let descriptor = make(libc::MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => make(0),
        _ => Err(error),
    })?;
    // SAFETY: just created, and not used elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests;
