//! The kernel's own clocks of a thread and of its group.

/// The throttle clock of a group on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleClock {
    /// The group on that CPU, by its address in the kernel.
    pub group: u64,
    /// Time up to now in which it or an ancestor was throttled, ns.
    pub ns: u64,
}

/// The kernel's own stamps of a thread on a CPU (`sched_info`), by the clock of its run queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// Time of its arrival on the CPU, ns; 0 where the kernel keeps no such stamps.
    pub arrived: u64,
    /// The sum of its waits for a CPU so far, in ns.
    pub queued_ns: u64,
}
