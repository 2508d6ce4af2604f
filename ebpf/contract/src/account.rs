//! What the time of a thread is charged to.

/// Number of accounts.
pub const ACCOUNTS: usize = 11;

/// Activity of a thread. Exclusive: over any interval the accounts add up to its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Account {
    /// On a CPU.
    Cpu = 0,
    /// Runnable, waiting for a CPU.
    Runq = 1,
    /// Runnable, its cgroup or an ancestor out of CPU quota.
    Throttled = 2,
    /// Waiting for a block device, outside a page fault.
    BlockIo = 3,
    /// Waiting for a socket.
    Net = 4,
    /// In poll, select, epoll or io_uring.
    Poll = 5,
    /// In futex.
    Lock = 6,
    /// Waiting for the GPU driver.
    Gpu = 7,
    /// In a page fault that slept.
    Fault = 8,
    /// In nanosleep, wait or pause.
    Sleep = 9,
    /// Anything else off the CPU.
    Other = 10,
}

impl Account {
    /// All accounts in the order of their numbers.
    pub const ALL: [Account; ACCOUNTS] = [
        Account::Cpu,
        Account::Runq,
        Account::Throttled,
        Account::BlockIo,
        Account::Net,
        Account::Poll,
        Account::Lock,
        Account::Gpu,
        Account::Fault,
        Account::Sleep,
        Account::Other,
    ];

    /// The word that reports, columns and attributes use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Account::Cpu => "cpu",
            Account::Runq => "runq",
            Account::Throttled => "throttled",
            Account::BlockIo => "block_io",
            Account::Net => "net",
            Account::Poll => "poll",
            Account::Lock => "lock",
            Account::Gpu => "gpu",
            Account::Fault => "fault",
            Account::Sleep => "sleep",
            Account::Other => "other",
        }
    }
}
