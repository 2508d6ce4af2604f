//! An I/O operation on a block device, from submission to completion.
//!
//! The kernel calls it a request; here, "request" always means a request that the program serves.

use crate::Header;

/// Most I/Os of tracked threads at once: more than the queues of a few disks hold.
pub const IOS: u32 = 4096;

/// The number that means no device.
pub const NO_DEVICE: u32 = 0;
/// Bits of the minor number in a device's number, below the major number.
pub const MINOR_BITS: u32 = 20;
/// Flag of a wait with a device: the last submission to it is a write.
pub const WAIT_WRITES: u32 = 1;

/// An I/O that a tracked task submitted is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IoRecord {
    /// `kind` is [`crate::Kind::Io`]; the time is that of the completion.
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
