//! CUPTI's records, by the offsets of their fields. These are the same in the newest structures of 11.8,
//! 12.1, 12.8 and 13.0: `CUpti_ActivityKernel8` to `10`, `Memcpy5` and `6`, `MemcpyPtoP4`, `Memset4`,
//! `GraphTrace` and `GraphTrace2`, `API`.

use core::{ffi::c_char, ptr};

use guestscope_cupti::{Kind, Work};

use super::{calls::Call, cupti::kind};

/// A record that is of use.
pub(crate) enum Record {
    /// Work, its correlation number, and the kernel's name: a C string of CUPTI's, or null.
    Work(Work, u32, *const c_char),
    Call(Call),
    Other,
}

/// A record in a buffer.
#[derive(Clone, Copy)]
struct At(*const u8);

impl At {
    /// # Safety
    /// The record has a field there.
    unsafe fn u32(self, offset: usize) -> u32 {
        // SAFETY: the caller's; CUPTI packs its records.
        unsafe { self.0.add(offset).cast::<u32>().read_unaligned() }
    }

    /// # Safety
    /// As above.
    unsafe fn u64(self, offset: usize) -> u64 {
        // SAFETY: the caller's.
        unsafe { self.0.add(offset).cast::<u64>().read_unaligned() }
    }
}

/// Reads a record.
///
/// # Safety
/// CUPTI has handed it over, and its buffer has not been given back.
pub(crate) unsafe fn read(record: *const u8) -> Record {
    let at = At(record);
    // SAFETY: every record begins with its kind, and has the fields of that kind's structure.
    unsafe {
        match at.u32(0) {
            kind::KERNEL | kind::CONCURRENT_KERNEL => kernel(at),
            kind::MEMCPY => copy(at, 44),
            kind::MEMCPY_PEER => copy(at, 60),
            kind::MEMSET => {
                let Record::Work(work, correlation, _) = copy(at, 44) else { return Record::Other };
                Record::Work(Work { kind: Kind::Set, copy: 0, ..work }, correlation, ptr::null())
            }
            kind::GRAPH => graph(at),
            kind::DRIVER | kind::RUNTIME => Record::Call(Call {
                correlation: at.u32(32),
                thread: at.u32(28),
                begin_ns: at.u64(8),
                end_ns: at.u64(16),
            }),
            _ => Record::Other,
        }
    }
}

/// # Safety
/// A record of a kernel.
unsafe fn kernel(at: At) -> Record {
    // SAFETY: the caller's.
    unsafe {
        let work = Work {
            kind: Kind::Kernel,
            device: at.u32(40),
            context: at.u32(44),
            stream: at.u32(48),
            start_ns: at.u64(16),
            end_ns: at.u64(24),
            ..Work::default()
        };
        Record::Work(work, at.u32(92), ptr::with_exposed_provenance(at.u64(104) as usize))
    }
}

/// # Safety
/// A record of a copy or of a fill, with the correlation number at this offset.
unsafe fn copy(at: At, correlation: usize) -> Record {
    // SAFETY: the caller's.
    unsafe {
        let work = Work {
            kind: Kind::Copy,
            copy: *at.0.add(4),
            device: at.u32(32),
            context: at.u32(36),
            stream: at.u32(40),
            start_ns: at.u64(16),
            end_ns: at.u64(24),
            bytes: at.u64(8),
            ..Work::default()
        };
        Record::Work(work, at.u32(correlation), ptr::null())
    }
}

/// # Safety
/// A record of a graph.
unsafe fn graph(at: At) -> Record {
    // SAFETY: the caller's.
    unsafe {
        let work = Work {
            kind: Kind::Graph,
            device: at.u32(24),
            context: at.u32(32),
            stream: at.u32(36),
            start_ns: at.u64(8),
            end_ns: at.u64(16),
            ..Work::default()
        };
        Record::Work(work, at.u32(4), ptr::null())
    }
}
