//! An I/O: what the kernel calls a request to a block device, from its submission until it is done.
//!
//! "Request" stands for a program's own requests everywhere else, so these have another word.

use crate::Header;

/// I/Os of tracked threads that can be on their way at once: more than the queues of a few disks hold.
pub const IOS: u32 = 4096;

/// Stands for the number of no device.
pub const NO_DEVICE: u32 = 0;
/// Of a device's number, below its major number.
pub const MINOR_BITS: u32 = 20;
/// Flag of a wait that has a device: what was submitted to it last hands something over.
pub const WAIT_WRITES: u32 = 1;

/// An I/O that a tracked task submitted is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IoRecord {
    /// `kind` is [`crate::Kind::Io`]; the time is when it was done.
    pub header: Header,
    /// With the thread number it names whoever submitted it, for good.
    pub born_ns: u64,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// When it was first handed to the device; 0 where the device never had it: it was refused before, or is a flush of
    /// the device's cache, which the kernel carries out by an I/O of its own.
    pub issued_ns: u64,
    /// Thread number.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
}

const _: () = assert!(size_of::<IoRecord>() == 16 + 3 * 8 + 2 * 4);
