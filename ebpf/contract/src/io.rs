//! An I/O operation on a block device, from submission to completion.
//!
//! The kernel calls it a request; here, "request" always means a request that the program serves.

#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::Header;

/// Most I/Os of tracked threads at once: more than the queues of a few disks hold.
pub const IOS: u32 = 4096;

/// The number that means no device.
pub const NO_DEVICE: u32 = 0;
/// Bits of the minor number in a device's number, below the major number.
pub const MINOR_BITS: u32 = 20;
/// Flag of a wait with a device: the last submission to it is a write.
pub const WAIT_WRITES: u32 = 1;
/// Flag of a wait with a device: a limit of its thread's group had held back the I/O that ended it.
pub const WAIT_HELD: u32 = 4;
/// Flag of an I/O: it is a write.
pub const IO_WRITES: u32 = 1;
/// Flag of an I/O: its submitter asked for it through io_uring.
pub const IO_OF_RING: u32 = 2;
/// Flag of an I/O: a limit of its submitter's group held it back.
pub const IO_HELD: u32 = 4;

/// The number of `io_uring_enter` on all processors.
pub const IO_URING_ENTER: u16 = 426;

/// Place of two counts in the flags of a wait in [`IO_URING_ENTER`]: the thread's reads through io_uring that
/// were under way when it was on a CPU again, and its writes.
const READS_AT: u32 = 8;
const WRITES_AT: u32 = 20;
/// The largest count that a wait can carry.
const MOST_UNDER_WAY: u64 = (1 << (u32::BITS - WRITES_AT)) - 1;

/// Packs the reads and writes that are under way into the flags of a wait. A number below 0, which a race of
/// two CPUs can make, is 0.
#[inline(always)]
#[must_use]
pub const fn under_way(reads: u64, writes: u64) -> u32 {
    carried(reads) << READS_AT | carried(writes) << WRITES_AT
}

#[inline(always)]
const fn carried(number: u64) -> u32 {
    if number.cast_signed() < 0 {
        0
    } else if number > MOST_UNDER_WAY {
        MOST_UNDER_WAY as u32
    } else {
        number as u32
    }
}

/// The reads and writes of [`under_way`] in the flags of a wait.
#[must_use]
pub const fn reads_and_writes_under_way(flags: u32) -> (u32, u32) {
    (flags >> READS_AT & MOST_UNDER_WAY as u32, flags >> WRITES_AT & MOST_UNDER_WAY as u32)
}

/// An I/O that a tracked task submitted is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IoRecord {
    /// `kind` is [`crate::Kind::Io`], flags are [`IO_WRITES`], [`IO_OF_RING`] and [`IO_HELD`]; the time is
    /// that of the completion.
    pub header: Header,
    /// Birth of the submitting thread: with the thread number it names the thread for good.
    pub born_ns: u64,
    /// Time of its submission, ns.
    pub submitted_ns: u64,
    /// Time when it was first issued to the device, ns; 0 if it never was: it was refused before, or it is a
    /// flush of the device's cache, which the kernel carries out as another I/O.
    pub issued_ns: u64,
    /// Thread number.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
}

const _: () = assert!(size_of::<IoRecord>() == 16 + 3 * 8 + 2 * 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_carries_what_is_under_way() {
        for (given, carried) in [
            ((0, 0), (0, 0)),
            ((8, 1), (8, 1)),
            ((1, 4095), (1, 4095)),
            ((4096, 1 << 40), (4095, 4095)),
            ((0_u64.wrapping_sub(1), 2), (0, 2)),
        ] {
            let flags = under_way(given.0, given.1);
            assert_eq!(reads_and_writes_under_way(flags), carried, "{given:?}");
            assert_eq!(flags & (WAIT_WRITES | WAIT_HELD), 0, "{given:?}");
        }
    }
}
