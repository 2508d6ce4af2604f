//! Counters of the kernel side about itself: a table of numbers that both sides share.

/// Counters of the kernel side about itself, per CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// The edge ring was full.
    LostEdge = 0,
    /// The event ring was full at a fork.
    LostFork = 1,
    /// The event ring was full at an exec.
    LostExec = 2,
    /// The event ring was full at an exit.
    LostExit = 3,
    /// A task was not tracked: no slot was free.
    MissedTask = 4,
    /// An edge was torn by switches.
    TornEdge = 5,
    /// A slot was still taken by a task that had left unseen.
    StaleSlot = 6,
    /// A marker fired with an unsupported ABI version.
    UnknownAbi = 7,
    /// The ring of waits was full.
    LostWait = 8,
    /// The sum of a process's threads was torn at an edge.
    TornSum = 9,
    /// The end of a task was not seen, but its being freed was.
    UnseenEnd = 10,
    /// An I/O found no room in the table of I/Os, or its record none in the ring.
    LostIo = 11,
    /// Another I/O was found in the place of one whose completion was never seen.
    StaleIo = 12,
    /// The sampler's clock ticked, on any task.
    Tick = 13,
    /// A thread without a slot, of a process that is observed, marked something.
    UntrackedMark = 14,
    /// That mark was the beginning of a request.
    UntrackedRequest = 15,
    /// The event ring was full at a task's new name.
    LostRename = 16,
    /// The ring of starts was full.
    LostStart = 17,
    /// A request began that is not handed over, on purpose: see [`Thinning`](crate::Thinning).
    RequestNotSeen = 18,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = 19;
}
