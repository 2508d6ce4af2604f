//! The per-thread ledger: a pure state machine from scheduler events to nanoseconds per account.
//!
//! It has no clock, no kernel and no memory of its own: the BPF programs drive it with events, host tests
//! with any order of them. Each event charges the interval since the last one to exactly one account (a
//! wake-up may cut it in two), so the accounts always add up to the thread's life. It never decides what a
//! syscall means.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

mod clocks;
mod empty;
mod polled;
mod stolen;
mod throttle;
mod unseen;

pub use clocks::{Stamps, ThrottleClock};

use crate::{ACCOUNTS, Account, DISTANCES};

/// The slot is empty: nothing is known.
pub const EMPTY: u8 = 0;
/// On a CPU.
pub const RUNNING: u8 = 1;
/// Off the CPU, and could run.
pub const RUNNABLE: u8 = 2;
/// Off the CPU, waiting for something.
pub const BLOCKED: u8 = 3;
/// Off the CPU and runnable, its group perhaps out of quota: the group's throttle clock gives that part.
pub const LIMITED: u8 = 4;

/// How long a waking may precede the clock of a switch-out and still be of that wait. A waker looks at the
/// thread before it has the run queue's lock, so a waking can overtake the switch-out by some us, more where
/// a hypervisor stops a CPU in between. An older stamp is of a wait whose enqueueing reached no tracepoint.
const RACE_NS: u64 = 1_000_000;

/// Whether a waking at `woken_ns` (0: none) ended, by `now_ns`, the wait that began at `since_ns`.
#[inline(always)]
#[must_use]
pub fn was_woken(since_ns: u64, woken_ns: u64, now_ns: u64) -> bool {
    woken_ns != 0 && woken_ns <= now_ns && woken_ns.wrapping_add(RACE_NS) >= since_ns
}

/// A thread's arrival on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The CPU.
    pub cpu: u16,
    /// A [`crate::Distance`] from its last CPU; without meaning where that is the same CPU.
    pub distance: u8,
}

/// One thread's ledger: 320 bytes, five cache lines of a page-aligned map. A switch touches the first line
/// and the head of the second. Times in ns of CLOCK_MONOTONIC. Accounts only grow; counts are 32 bits and
/// wrap: take differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ledger {
    /// Start of the open interval.
    pub since_ns: u64,
    /// Address of the task: compared, never followed.
    pub task: u64,
    /// Start of tracking: with the tid it names the thread for good, also when the tid is used again.
    pub born_ns: u64,
    /// Start of its waking (sched_waking); 0 once it was enqueued, or found awake.
    pub woken_ns: u64,
    /// Goes up with every transition: a reader that saw it change reads again.
    pub sequence: u32,
    /// Thread number in the initial namespace.
    pub tid: u32,
    /// Process number in the initial namespace.
    pub tgid: u32,
    /// The task that last began to wake it, packed by [`crate::waker`]; 0 where that was not seen.
    pub waker: u32,
    /// Times it blocked.
    pub voluntary: u32,
    /// Times it left the CPU while it could run.
    pub involuntary: u32,
    /// The CPU it last ran on.
    pub cpu: u16,
    /// The syscall of the last block; 0xffff outside any; an earlier one by
    /// [`kept_since`](crate::kept_since).
    pub syscall: u16,
    /// [`EMPTY`], [`RUNNING`], [`RUNNABLE`], [`BLOCKED`] or [`LIMITED`].
    pub state: u8,
    /// Account of the open wait; [`Account::Runq`] for a wait for a CPU only.
    pub account: u8,
    /// The slot of this ledger.
    pub slot: u16,
    /// Nanoseconds by account.
    pub accounts: [u64; ACCOUNTS],
    /// Wake-ups that ended a block.
    pub wakeups: u32,
    /// Waits for a CPU in which its group was out of quota.
    pub throttles: u32,
    /// Switches that never reached the hook.
    pub missed: u32,
    /// Events whose clock lay before the one before them.
    pub backwards: u32,
    /// Added to the kernel's stamp of a switch-in, which is of another clock, it gives ours; 0 while unknown.
    pub arrival_offset_ns: u64,
    /// The kernel's own sum of the thread's waits for a CPU, when it last left one.
    pub queued_ns: u64,
    /// Sum of the times from the start of a wake-up to its enqueueing: the part of [`Account::Runq`] that is
    /// an interrupt to another CPU and, in a virtual machine, that CPU's exit from its halt. Only where both
    /// were seen.
    pub wakeup_delay_ns: u64,
    /// Address of the group of `throttle_clock_ns`. The group may be freed: the address is only compared, and
    /// read by kernel functions that check it.
    pub group: u64,
    /// The throttle clock at the start of the open wait; without meaning unless the state is [`LIMITED`].
    pub throttle_clock_ns: u64,
    /// Times it ran on another CPU than before, by [`crate::Distance`].
    pub migrations: [u32; DISTANCES],
    /// Start of the open or last wait.
    pub left_ns: u64,
    /// When the thread became runnable in that wait, ns.
    pub ready_ns: u64,
    /// [`Account::Throttled`] at the start of that wait.
    pub throttled_before_ns: u64,
    /// The thread that got the CPU when this one left it.
    pub replaced_by_tid: u32,
    /// Number of its process in `PROCESSES`; 0 for none.
    pub process: u16,
    /// Position in that process's list.
    pub place: u16,
    /// Part of [`Account::Cpu`] in which the hypervisor ran another guest, up to the last event.
    pub stolen_ns: u64,
    /// The hypervisor's sum of such time for its CPU, when it got there; 0 while unknown.
    pub stolen_clock_ns: u64,
    /// Bytes that it requested from block devices.
    pub block_read_bytes: u64,
    /// Bytes that it handed to block devices.
    pub block_write_bytes: u64,
    /// Bytes that it received over sockets.
    pub net_recv_bytes: u64,
    /// Bytes that it sent over sockets.
    pub net_send_bytes: u64,
    /// Reads that it submitted to block devices.
    pub block_reads: u32,
    /// Writes that it submitted to block devices.
    pub block_writes: u32,
    /// Calls that received over sockets.
    pub net_recvs: u32,
    /// Calls that sent over sockets.
    pub net_sends: u32,
}

impl Ledger {
    /// The time of an event: never before the last one. CPUs may disagree by a few ns.
    #[inline(always)]
    fn advance(&mut self, now_ns: u64) -> u64 {
        if now_ns >= self.since_ns {
            return now_ns;
        }
        self.backwards = self.backwards.wrapping_add(1);
        self.since_ns
    }

    /// End of the open block, if it ended: the waking, or the switch-out where the waking overtook that.
    #[inline(always)]
    fn block_end(&self, now_ns: u64) -> u64 {
        if !was_woken(self.since_ns, self.woken_ns, now_ns) {
            now_ns
        } else if self.woken_ns > self.since_ns {
            self.woken_ns
        } else {
            self.since_ns
        }
    }

    /// Adds to the account of the open block.
    #[inline(always)]
    fn charge_block(&mut self, ns: u64) {
        // The mask is a bound for the verifier: the 16th account would still lie inside the ledger's 320
        // bytes. The test keeps the promise on the host too, where the index is that given to `out_blocked`.
        let account = usize::from(self.account & 15);
        #[cfg(target_arch = "bpf")]
        // SAFETY: `account` is at most 15, and accounts[15] ends at byte 192, inside the ledger.
        unsafe {
            let account = self.accounts.as_mut_ptr().add(account);
            *account = (*account).wrapping_add(ns);
        }
        #[cfg(not(target_arch = "bpf"))]
        {
            let account = &mut self.accounts[account.min(Account::Other as usize)];
            *account = account.wrapping_add(ns);
        }
    }

    /// Charges the open interval, whatever the state, up to `now_ns` (already advanced).
    #[inline(always)]
    fn settle(&mut self, now_ns: u64) {
        let open_ns = now_ns.wrapping_sub(self.since_ns);
        if self.state == RUNNING {
            self.accounts[Account::Cpu as usize] = self.accounts[Account::Cpu as usize].wrapping_add(open_ns);
        } else if self.state == RUNNABLE || self.state == LIMITED {
            self.accounts[Account::Runq as usize] =
                self.accounts[Account::Runq as usize].wrapping_add(open_ns);
        } else if self.state == BLOCKED {
            let end_ns = self.block_end(now_ns);
            self.charge_block(end_ns.wrapping_sub(self.since_ns));
            let runq = &mut self.accounts[Account::Runq as usize];
            *runq = runq.wrapping_add(now_ns.wrapping_sub(end_ns));
        }
        self.since_ns = now_ns;
    }

    #[inline(always)]
    fn become_(&mut self, state: u8) {
        self.state = state;
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Tracking begins at `now_ns`, with the thread in `state`.
    #[inline(always)]
    pub fn begin(&mut self, now_ns: u64, state: u8, cpu: u16) {
        self.since_ns = now_ns;
        self.born_ns = now_ns;
        self.left_ns = now_ns;
        self.ready_ns = now_ns;
        self.account = Account::Runq as u8;
        self.cpu = cpu;
        self.become_(state);
    }

    /// Leaves a CPU. After an unseen switch-in the open wait takes the time, so that the sum holds.
    #[inline(always)]
    fn leave(&mut self, now_ns: u64) {
        if self.state != RUNNING {
            self.missed = self.missed.wrapping_add(1);
        }
        let now_ns = self.advance(now_ns);
        self.settle(now_ns);
        self.left_ns = now_ns;
        self.ready_ns = now_ns;
        self.throttled_before_ns = self.accounts[Account::Throttled as usize];
    }

    /// Switched out while it could run.
    #[inline(always)]
    pub fn out_runnable(&mut self, now_ns: u64) {
        self.leave(now_ns);
        self.involuntary = self.involuntary.wrapping_add(1);
        self.account = Account::Runq as u8;
        self.become_(RUNNABLE);
    }

    /// Switched out to wait, inside `syscall` (0xffff outside any); the wait is charged to `account`.
    #[inline(always)]
    pub fn out_blocked(&mut self, now_ns: u64, account: u8, syscall: u16) {
        self.leave(now_ns);
        self.voluntary = self.voluntary.wrapping_add(1);
        self.account = account;
        self.syscall = syscall;
        self.become_(BLOCKED);
    }

    /// A waking begins. It comes in the waker's context and may run beside the switch-out, so it writes
    /// nothing that an account depends on but the stamp.
    #[inline(always)]
    pub fn waking(&mut self, now_ns: u64, waker: u32) {
        self.woken_ns = now_ns;
        self.waker = waker;
    }

    /// Enqueued: the block ended when the waking began, and the wait for a CPU began there.
    #[inline(always)]
    pub fn wakeup(&mut self, now_ns: u64) {
        if self.state != BLOCKED {
            // Found awake: that waking ends no later wait.
            self.woken_ns = 0;
            return;
        }
        let now_ns = self.advance(now_ns);
        self.end_block(now_ns);
        self.become_(RUNNABLE);
        self.wakeup_delay_ns = self.wakeup_delay_ns.wrapping_add(now_ns.wrapping_sub(self.since_ns));
    }

    /// Blocked, and woken by now: since the waking it has waited for a CPU.
    #[inline(always)]
    fn end_block(&mut self, now_ns: u64) {
        let end_ns = self.block_end(now_ns);
        if !was_woken(self.since_ns, self.woken_ns, now_ns) {
            self.waker = 0;
        }
        self.woken_ns = 0;
        self.charge_block(end_ns.wrapping_sub(self.since_ns));
        self.since_ns = end_ns;
        self.ready_ns = end_ns;
        self.wakeups = self.wakeups.wrapping_add(1);
        self.state = RUNNABLE;
    }

    /// Switched in. After an unseen switch-out, the time stays with `cpu`.
    #[inline(always)]
    pub fn switched_in(&mut self, now_ns: u64, at: Arrival) {
        if self.state == RUNNING {
            // The start was not seen: no known wait ends here.
            self.missed = self.missed.wrapping_add(1);
            self.left_ns = now_ns;
        }
        let now_ns = self.advance(now_ns);
        if self.state == BLOCKED {
            // It was woken, seen or not.
            self.end_block(now_ns);
        }
        self.settle(now_ns);
        if self.cpu != at.cpu {
            self.count_migration(at.distance);
            self.cpu = at.cpu;
        }
        self.stolen_clock_ns = 0;
        self.become_(RUNNING);
    }

    /// The throttled part of the wait that has ended.
    #[inline(always)]
    pub fn wait_throttled_ns(&self) -> u64 {
        self.accounts[Account::Throttled as usize].wrapping_sub(self.throttled_before_ns)
    }

    #[inline(always)]
    fn count_migration(&mut self, distance: u8) {
        // As with the accounts: a bound for the verifier, and no branch to a panic.
        let distance = usize::from(distance) & (DISTANCES - 1);
        // SAFETY: the mask keeps the index inside the array, whose length is a power of two.
        unsafe {
            let migrations = self.migrations.as_mut_ptr().add(distance);
            *migrations = (*migrations).wrapping_add(1);
        }
    }

    /// Whether a copy is of one instant: its accounts add up to its life until the last event. A reader on
    /// another CPU may read amid a change, and even twice the same if the writer's CPU stands still there.
    pub fn is_whole(&self) -> bool {
        let charged = self.accounts.iter().fold(0_u64, |sum, ns| sum.wrapping_add(*ns));
        charged == self.since_ns.wrapping_sub(self.born_ns)
    }

    /// The accounts at `now_ns`, with the open interval added to the account of the state. Changes nothing.
    #[must_use]
    pub fn accounts_at(&self, now_ns: u64) -> [u64; ACCOUNTS] {
        let mut copy = *self;
        let now_ns = copy.advance(now_ns);
        copy.settle(now_ns);
        copy.accounts
    }
}

#[cfg(test)]
mod tests;
