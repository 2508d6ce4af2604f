//! I/Os of a thread under way, and those that were done for it.

/// What the waits of a thread need to know of its I/Os, and what was done for it by others. Several CPUs
/// write it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Flight {
    /// Birth of its thread: a slot is given to other threads later.
    pub(crate) born_ns: u64,
    /// When its last read was done, its last write, the last I/O of its ring, and the last one that a limit
    /// had held back.
    pub(crate) read_done_ns: u64,
    pub(crate) write_done_ns: u64,
    pub(crate) ring_done_ns: u64,
    pub(crate) held_done_ns: u64,
    /// Reads and writes that it has asked for through io_uring and that are not done.
    pub(crate) ring_reads: u64,
    pub(crate) ring_writes: u64,
    /// Reads and writes that others have submitted for it, and are not in its ledger yet.
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    /// How much of the kernel's own sum of what it has asked block devices for was seen on its way to them.
    pub(crate) read_seen: u64,
    /// The piece of a file whose pages it last put into the page cache.
    pub(crate) piece: u64,
    /// The file of the last read of it that was held back and is queued.
    pub(crate) held_file: u64,
    /// The device of the ring's last I/O, and whether that is a write.
    pub(crate) device: u32,
    pub(crate) is_write: u32,
    /// The device of the last I/O that was held back and is done.
    pub(crate) held_device: u32,
    pub(crate) reserved: u32,
}
