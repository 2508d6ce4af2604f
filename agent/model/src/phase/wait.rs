//! Long waits: off-CPU intervals of a thread, with the phase that they fall into and the previous thread on
//! the CPU.
//!
//! Yields values from records. A wait explains time that its phase's accounts already contain; it adds
//! nothing.

use guestscope_contract::{Account, metrics::WaitsFor};

use super::{ids::wait_span_id, queue::QueueUsers, stopper::Stopper, thread_id::ThreadId};
use crate::untrusted::Untrusted;

/// ns.
const MILLISECOND: u64 = 1_000_000;

/// A thread was off the CPU for longer than the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The `id` of the innermost phase that was on the thread when it left the CPU and is there still.
    pub phase: Option<u64>,
    /// The `id` of that phase's request.
    pub root: Option<u64>,
    /// The thread that waited.
    pub thread: ThreadId,
    /// When the thread left the CPU: CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Until it was on a CPU again, ns.
    pub duration_ns: u64,
    /// Why it left the CPU: [`Account::Runq`] if it could have continued.
    pub account: Account,
    /// Blocked time, ns.
    pub blocked_ns: u64,
    /// Time after that without quota of its group, ns.
    pub throttled_ns: u64,
    /// The syscall that it waited in, by its number; a 32-bit one by [`guestscope_contract::CALLS_32`] more.
    pub syscall: Option<u32>,
    /// What kept it from running; `waker_tid` is the thread that let it go on.
    pub stopped_by: Option<Stopper>,
    /// The CPU that it left.
    pub left_cpu: u32,
    /// The CPU that it got.
    pub cpu: u32,
    /// The thread that ended the wait: it woke this one, in a system call that can end such a wait. None
    /// where an interrupt did (timers, disks, packets).
    pub waker_tid: Option<u32>,
    /// The system call in which that thread did so.
    pub waker_syscall: Option<u32>,
    /// The first argument of `syscall`: a file descriptor, the address of a futex, a process.
    pub argument: Option<u64>,
    /// Whether `syscall` was asked to return after some time at the latest.
    pub is_limited: bool,
    /// That time, ms, where it is an argument of the system call; those in memory are not read.
    pub limit_ms: Option<u32>,
    /// Another thread of its process that a sample met on a CPU meanwhile: the last one.
    pub beside_tid: Option<u32>,
    /// The thread that got the CPU which it left; 0 is the idle task, or a new thread's first wait.
    pub replaced_by_tid: u32,
    /// The previous thread on the CPU that it got; 0 is the idle task.
    pub ran_before_tid: u32,
    /// Process of that thread.
    pub ran_before_tgid: u32,
    /// Name of that thread.
    pub ran_before_comm: Untrusted,
    /// Who used the CPU in whose queue it stood.
    pub users: QueueUsers,
    /// The number of the thread in its own PID namespace.
    pub ns_tid: Option<u32>,
    /// The control group that ruled its CPU time when it ended, by the number of its directory.
    pub cgroup_number: Option<u64>,
    /// The same by its path as the guest names it; none while that is not known.
    pub cgroup: Option<Untrusted>,
    /// Name of the thread that ended this wait, as it was then; none where another thread ended none, or the
    /// thread had waited for it for less than the threshold.
    pub waker_comm: Option<Untrusted>,
    /// What had delayed the thread that ended this wait.
    pub blame: Option<Blame>,
    /// Its I/O on a block device when it left its CPU; none where it waited for the I/O of another thread.
    pub io: Option<WaitedIo>,
}

/// I/O on a block device that a thread waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitedIo {
    /// The device by its numbers, `MAJOR:MINOR`.
    pub device: Untrusted,
    /// Device name in the guest; its numbers again while the name is unknown.
    pub name: Untrusted,
    /// Whether it was a write; otherwise a read, or an operation that changes nothing.
    pub is_write: bool,
    /// Whether a limit of the thread's control group had held it back.
    pub is_held: bool,
    /// What the thread had asked for through io_uring; only for a wait in `io_uring_enter`.
    pub in_flight: Option<InFlight>,
}

/// Reads and writes that were under way during a wait for io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Number of reads.
    pub reads: u32,
    /// Number of writes, and of other operations that change a device.
    pub writes: u32,
}

impl WaitedIo {
    /// `read` or `write`, as OpenTelemetry has it.
    pub fn direction(&self) -> &'static str {
        if self.is_write { "write" } else { "read" }
    }
}

impl Default for Wait {
    /// A wait of no thread and no length.
    fn default() -> Self {
        Self {
            phase: None,
            root: None,
            thread: ThreadId::default(),
            start_ns: 0,
            duration_ns: 0,
            account: Account::Runq,
            blocked_ns: 0,
            throttled_ns: 0,
            syscall: None,
            argument: None,
            is_limited: false,
            limit_ms: None,
            stopped_by: None,
            left_cpu: 0,
            cpu: 0,
            waker_tid: None,
            waker_syscall: None,
            beside_tid: None,
            replaced_by_tid: 0,
            ran_before_tid: 0,
            ran_before_tgid: 0,
            ran_before_comm: Untrusted::default(),
            users: QueueUsers::default(),
            ns_tid: None,
            cgroup_number: None,
            cgroup: None,
            waker_comm: None,
            blame: None,
            io: None,
        }
    }
}

impl Wait {
    /// Time for which it was runnable and had no CPU, though its group had quota, ns.
    pub fn runq_ns(&self) -> u64 {
        self.duration_ns.saturating_sub(self.blocked_ns).saturating_sub(self.throttled_ns)
    }

    /// When what it waited for was there: CLOCK_MONOTONIC, ns.
    pub const fn ready_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.blocked_ns)
    }

    /// Its parts (account, start and length, ns): blocked, without quota, in the run queue.
    pub fn portions(&self) -> [(Account, u64, u64); 3] {
        let ready_ns = self.ready_ns();
        let queued_ns = ready_ns.saturating_add(self.throttled_ns);
        [
            (self.account, self.start_ns, self.blocked_ns),
            (Account::Throttled, ready_ns, self.throttled_ns),
            (Account::Runq, queued_ns, self.runq_ns()),
        ]
    }

    /// When it was on a CPU again: CLOCK_MONOTONIC, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// Whether its time limit ended it. A wait for a peer with a limit in memory is never known to have.
    pub fn timed_out(&self) -> bool {
        // A limit is in whole ms, and the kernel rounds it up.
        let has_lasted =
            |limit_ms| self.blocked_ns.saturating_add(MILLISECOND) >= u64::from(limit_ms) * MILLISECOND;
        let is_over = self.limit_ms.is_some_and(has_lasted);
        let is_lock = self.account.waits_for() == WaitsFor::Thread;
        self.is_limited && self.blocked_ns > 0 && self.waker_tid.is_none() && (is_lock || is_over)
    }

    /// ID of its span in the trace, given that of its phase.
    pub fn span_id(&self, phase: [u8; 8]) -> [u8; 8] {
        wait_span_id(phase, self.start_ns)
    }

    /// The account with the largest part, and that part, ns.
    pub fn mainly(&self) -> (Account, u64) {
        let parts = [
            (Account::Runq, self.runq_ns()),
            (Account::Throttled, self.throttled_ns),
            (self.account, self.blocked_ns),
        ];
        parts.into_iter().max_by_key(|part| part.1).unwrap_or(parts[0])
    }
}

/// What explains most of a wait for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The thread that was kept.
    pub tid: u32,
    /// Account in which the other thread was delayed.
    pub account: Account,
    /// What had stopped that thread meanwhile, if anything had.
    pub stopped_by: Option<Stopper>,
    /// Duration of the overlap with the wait, ns.
    pub ns: u64,
    /// Wake-ups between that thread and this one, from 1.
    pub depth: u32,
}
