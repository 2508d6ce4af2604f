//! The last I/O of a thread.

/// Target of a thread's last I/O. Only its own thread writes it, and reads it when it is on a CPU again.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LastIo {
    /// Birth of its thread: a slot is given to other threads later.
    pub(crate) born_ns: u64,
    /// Count of that thread's sleeps.
    pub(crate) voluntary: u32,
    pub(crate) device: u32,
    /// The I/O writes to the device.
    pub(crate) is_write: u16,
    /// The system call of the submission, [`guestscope_contract::NO_SYSCALL`] in a fault.
    pub(crate) syscall: u16,
    pub(crate) reserved: u32,
    pub(crate) time_ns: u64,
}
