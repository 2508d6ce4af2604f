//! The accounts: one table of what a thread can be doing, from which everything that lists accounts is made.
//!
//! A row is an account's number, name, help, and what its time is spent on. Which event charges it is decided
//! by the programs (`ebpf/src/blocked.rs`) and by the table of system calls.

/// What a thread in an account waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing: it runs.
    Nothing,
    /// A CPU that it may use. It has work.
    Cpu,
    /// A device that works for it.
    Device,
    /// Another thread.
    Thread,
    /// Another thread, another machine or a timer.
    Peer,
    /// A timer.
    Timer,
    /// Anything: another thread, as a rule.
    Unknown,
}

macro_rules! accounts {
    ($($(#[doc = $help:literal])+ $account:ident = $name:literal, $waits_for:ident, $coarse:ident;)*) => {
        /// Activity of a thread. Exclusive: over any interval the accounts add up to its length.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Account { $($(#[doc = $help])+ $account,)* }

        /// Number of accounts.
        pub const ACCOUNTS: usize = [$($name),*].len();

        impl Account {
            /// All accounts in the order of their numbers.
            pub const ALL: [Account; ACCOUNTS] = [$(Account::$account),*];

            /// The word that reports, columns and attributes use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Account::$account => $name,)* }
            }

            /// What a thread in it waits for.
            #[must_use]
            pub const fn waits_for(self) -> WaitsFor {
                match self { $(Account::$account => WaitsFor::$waits_for,)* }
            }

            /// The account that its time is charged to where the kernel tells when a thread is on a CPU and
            /// when it is runnable, and nothing else.
            #[must_use]
            pub const fn coarse(self) -> Account {
                match self { $(Account::$account => Account::$coarse,)* }
            }
        }

        /// Rows of the table of metrics that accounts have, each in the order of [`Account::ALL`].
        pub(crate) mod rows {
            use crate::row::{Class, FilledBy, Row, Unit};

            /// Time of the phase's own threads.
            pub(crate) static TIME: [Row; super::ACCOUNTS] =
                [$(row!(Time "time" $name Ns "_ns", Switches, concat!($($help),+)),)*];
            /// Time of the process's other threads, outside phases of their own.
            pub(crate) static HELPER: [Row; super::ACCOUNTS] =
                [$(row!(Helper "helper" $name Ns "_ns", Switches, concat!($($help),+)),)*];
        }
    };
}

// Name, what it waits for, and the account that stands for it where less is seen. `Other` is the last one:
// the ledger charges an unknown account to it.
accounts! {
    /// On a CPU.
    Cpu = "cpu", Nothing, Cpu;
    /// Runnable, waiting for a CPU.
    Runq = "runq", Cpu, Runq;
    /// Runnable, its cgroup or an ancestor out of CPU quota.
    Throttled = "throttled", Cpu, Runq;
    /// Waiting for a block device, outside a page fault.
    BlockIo = "block_io", Device, Other;
    /// Waiting for a socket.
    Net = "net", Peer, Other;
    /// In poll, select, epoll or io_uring.
    Poll = "poll", Peer, Other;
    /// In futex.
    Lock = "lock", Thread, Other;
    /// Waiting for the GPU driver.
    Gpu = "gpu", Device, Other;
    /// In a page fault that slept.
    Fault = "fault", Device, Other;
    /// In nanosleep, wait or pause.
    Sleep = "sleep", Timer, Other;
    /// Anything else off the CPU.
    Other = "other", Unknown, Other;
}

const _: () = assert!(Account::Other as usize == ACCOUNTS - 1, "an unknown account is charged to the last");

/// What keeps a thread from running that has work. A helper in `lock` or `sleep` mostly has none.
pub const KEPT: [Account; 4] = [Account::Runq, Account::Throttled, Account::BlockIo, Account::Fault];
