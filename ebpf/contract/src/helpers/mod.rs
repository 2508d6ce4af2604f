//! Time of a process's threads outside phases, summed at an edge: pure arithmetic, `no_std`, tested on the
//! host.
//!
//! A thread inside a phase is not a helper: its share does not grow until it leaves the outermost phase. So
//! the sum over all threads, and over those that have ended, only grows, and the difference of two edges of
//! one process is exact, whichever of its threads they are on. This module uses no maps and knows nothing of
//! requests.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::{
    ACCOUNTS, Account, Operation, THREAD_AS_BEFORE, THREAD_INSIDE, THREAD_OUTSIDE, is_root_token,
    ledger::{BLOCKED, EMPTY, LIMITED, Ledger, RUNNING, was_woken},
};

/// Most threads of a process that an edge sums; later ones are unlisted. A power of two, since it is also a
/// mask.
pub const MEMBERS: usize = 128;
/// The place of a thread in no list.
pub const NO_PLACE: u16 = 0xffff;

/// An edge's statement on all threads of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HelperSum {
    /// Nanoseconds outside phases by account, of all threads since the process was first seen.
    pub accounts: [u64; ACCOUNTS],
    /// Threads that live and are listed, the edge's own included.
    pub threads: u32,
    /// Threads so far without a ledger or a place in the list, which are in no sum.
    pub unlisted: u32,
}

/// A thread's time outside phases. While it is outside, `accounts` is its time inside; while it is inside,
/// its time outside so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Outside {
    /// Odd while it is being written.
    pub sequence: u32,
    /// Number of phases that the thread is inside, at least. An end beyond that counts as the end of one
    /// phase, until the library reports that none is open.
    pub depth: u16,
    /// Instance of the library that began the outermost phase. Reports of other instances about their own
    /// phases say nothing about the thread.
    pub outermost: u16,
    /// Nanoseconds by account.
    pub accounts: [u64; ACCOUNTS],
    /// First argument of the thread's last edge that was handed over; 0 if none was.
    pub last: u64,
    /// Phases that the thread is inside and that are not handed over, a bit for each, the outermost in the
    /// lowest one: see [`Thinning`](crate::Thinning).
    pub unseen: u64,
    /// Edges of the thread that were not handed over.
    pub left_out: u64,
}

/// A process: the slots of its threads, and the sums of those that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Process {
    /// Slots of its threads, 0 for a free place.
    pub members: [u16; MEMBERS],
    /// Nanoseconds outside phases of threads that have ended.
    pub ended: [u64; ACCOUNTS],
    /// Count of live threads.
    pub threads: u64,
    /// Taken places, a bit for each.
    pub taken: [u64; MEMBERS / 64],
    /// Threads so far without a ledger or a place.
    pub unlisted: u64,
    /// Threads that began to hand over their time; equal to `left` while none is at it.
    pub leaving: u64,
    /// Threads that have handed it over.
    pub left: u64,
    /// Programs that it has replaced by others (`execve`) since it is tracked.
    pub replaced: u64,
    /// Time of the last sample that met one of its threads on a CPU, CLOCK_MONOTONIC, ns.
    pub sampled_ns: u64,
    /// The thread of that sample.
    pub sampled_tid: u64,
}

/// A thread's life up to `now_ns`, of one account: its ledger, and the open interval if it runs.
#[inline(always)]
fn lived(ledger: &Ledger, now_ns: u64, account: usize) -> u64 {
    let mut ns = ledger.accounts[account];
    if account == Account::Cpu as usize && ledger.state == RUNNING && now_ns > ledger.since_ns {
        ns = ns.wrapping_add(now_ns.wrapping_sub(ledger.since_ns));
    }
    ns
}

impl Outside {
    /// An edge of the running thread itself; `head` is its first argument. At an end the library reports in
    /// `first`, the argument after the token, whether its thread is still inside another phase. Without that
    /// report the end counts for this thread.
    #[inline(always)]
    pub fn edge(&mut self, head: u64, token: u64, first: u64, ledger: &Ledger, now_ns: u64) {
        const BEGIN: u8 = Operation::Begin as u8;
        const REQUEST: u8 = Operation::Request as u8;
        const END: u8 = Operation::End as u8;
        const LEAVE: u8 = Operation::Leave as u8;
        const ENTER: u8 = Operation::Enter as u8;
        let (operation, instance) = (head as u8, (head >> 16) as u16);
        if self.depth == 0 {
            self.outermost = instance;
        }
        let is_outermost = self.outermost == instance;
        let least = u16::from(!is_outermost);
        let depth = match operation {
            BEGIN if is_outermost && is_root_token(token) => 1,
            BEGIN | REQUEST | ENTER => self.depth.saturating_add(1),
            END if first == THREAD_AS_BEFORE => self.depth,
            END | LEAVE if is_outermost && first == THREAD_OUTSIDE => 0,
            END | LEAVE if is_outermost && first == THREAD_INSIDE && self.depth < 2 => self.depth,
            END | LEAVE if self.depth > least => self.depth - 1,
            _ => self.depth,
        };
        self.become_(depth, ledger, now_ns);
    }

    /// Sets the number of phases that the thread is inside from now on.
    #[inline(always)]
    pub fn become_(&mut self, depth: u16, ledger: &Ledger, now_ns: u64) {
        self.sequence = self.sequence.wrapping_add(1);
        if (self.depth == 0) != (depth == 0) {
            // Inside and outside add up to the life, so one formula serves both ways.
            let mut account = 0;
            while account < ACCOUNTS {
                self.accounts[account] = lived(ledger, now_ns, account).wrapping_sub(self.accounts[account]);
                account += 1;
            }
        }
        self.depth = depth;
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Starts a new stretch: the time between two changes from outside to inside a phase, or back. Only one
    /// side's time grows within a stretch.
    #[inline(always)]
    #[must_use]
    pub fn stretch(&self) -> u64 {
        self.accounts[Account::Cpu as usize] << 1 | u64::from(self.depth > 0)
    }

    /// Time outside on one account of the thread, which is on a CPU or has left it right now.
    #[inline(always)]
    #[must_use]
    pub fn share(&self, ledger: &Ledger, now_ns: u64, account: usize) -> u64 {
        let beside = self.accounts[account];
        if self.depth == 0 { lived(ledger, now_ns, account).wrapping_sub(beside) } else { beside }
    }
}

/// Result of reading another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Both attempts read it while it was being written: nothing was added.
    Torn,
    /// Its share was added to the sum.
    Added,
    /// The same, and it waits with its group perhaps out of quota, so far for this many ns, which are part of
    /// `runq`.
    Limited(u64),
}

/// Adds another thread's share to a sum, the open interval up to `now_ns` included. Another CPU may write
/// either at the same time: the reading counts only if it is of one instant; otherwise nothing is added.
///
/// Almost without branches: a BPF program repeats this 128 times, and the verifier follows each branch each
/// time.
///
/// # Safety
/// All three must point to whole values, `sum` with at least 32 bytes of the same map's value behind it.
#[inline(always)]
pub unsafe fn add(
    sum: *mut HelperSum,
    ledger: *const Ledger,
    outside: *const Outside,
    now_ns: u64,
) -> Reading {
    macro_rules! read {
        ($of:ident.$field:ident) => {
            // SAFETY: the caller promised whole values.
            unsafe { core::ptr::read_volatile(&raw const (*$of).$field) }
        };
    }
    let (written, sequence) = (read!(outside.sequence), read!(ledger.sequence));
    let depth = read!(outside.depth);
    // SAFETY: as above.
    let (beside, lived) =
        unsafe { (accounts(&raw const (*outside).accounts), accounts(&raw const (*ledger).accounts)) };
    let (since_ns, born_ns, woken_ns) =
        (read!(ledger.since_ns), read!(ledger.born_ns), read!(ledger.woken_ns));
    let (state, blocked) = (read!(ledger.state), read!(ledger.account));
    // All ones for a thread outside phases. Zero for one inside, of which only `beside` counts.
    let outside_mask = ones_if_zero(u64::from(depth));
    let mut lived_ns = 0_u64;
    let mut account = 0;
    while account < ACCOUNTS {
        lived_ns = lived_ns.wrapping_add(lived[account]);
        account += 1;
    }
    // The sequence is raised last; a change by a writer that was stopped in between shows in the sum.
    let is_between =
        u64::from(read!(ledger.sequence) ^ sequence) | (lived_ns ^ since_ns.wrapping_sub(born_ns));
    let is_written = u64::from(written & 1) | u64::from(read!(outside.sequence) ^ written);
    if is_between & outside_mask | is_written != 0 {
        return Reading::Torn;
    }
    let open_ns = if now_ns > since_ns { now_ns.wrapping_sub(since_ns) & outside_mask } else { 0 };
    // SAFETY: the caller's.
    unsafe {
        account = 0;
        while account < ACCOUNTS {
            // Life less `beside` for a thread outside, `beside` for one inside.
            let share = (lived[account] & outside_mask)
                .wrapping_add((beside[account] ^ outside_mask).wrapping_sub(outside_mask));
            (*sum).accounts[account] = (*sum).accounts[account].wrapping_add(share);
            account += 1;
        }
        let mut queued_ns = open_ns;
        if state == RUNNING {
            queued_ns = 0;
            charge(sum, Account::Cpu as u8, open_ns);
        } else if state == BLOCKED {
            queued_ns = 0;
            if was_woken(since_ns, woken_ns, now_ns) {
                // A waking that overtook the switch-out ended the wait at its start, which may be later than
                // this reading.
                queued_ns =
                    if woken_ns > since_ns { now_ns.wrapping_sub(woken_ns) & outside_mask } else { open_ns };
            }
            charge(sum, blocked, open_ns.wrapping_sub(queued_ns));
        } else if state == EMPTY {
            queued_ns = 0;
        }
        charge(sum, Account::Runq as u8, queued_ns);
    }
    if state == LIMITED { Reading::Limited(open_ns) } else { Reading::Added }
}

/// All bits set for 0, none for anything else below 2^63: arithmetic, where a comparison would be a branch.
#[inline(always)]
const fn ones_if_zero(number: u64) -> u64 {
    (number.wrapping_sub(1).cast_signed() >> 63).cast_unsigned()
}

/// Accounts that another CPU may be writing, one by one: a volatile copy of them all would be a loop over
/// bytes.
///
/// # Safety
/// They must be whole.
#[inline(always)]
unsafe fn accounts(from: *const [u64; ACCOUNTS]) -> [u64; ACCOUNTS] {
    let mut copy = [0; ACCOUNTS];
    let mut account = 0;
    while account < ACCOUNTS {
        // SAFETY: the caller's; the index is inside the array.
        copy[account] = unsafe { core::ptr::read_volatile(from.cast::<u64>().add(account)) };
        account += 1;
    }
    copy
}

/// Adds an open interval to its account.
///
/// # Safety
/// `sum` must point to a sum with at least 32 bytes of the same map's value behind it.
#[inline(always)]
unsafe fn charge(sum: *mut HelperSum, account: u8, ns: u64) {
    // As in the ledger: the mask is a bound for the verifier; 16 accounts end 32 bytes behind a sum.
    let account = usize::from(account & 15);
    #[cfg(not(target_arch = "bpf"))]
    let account = account.min(Account::Other as usize);
    // SAFETY: the index is that of an account, and whatever it were, the caller promised the room.
    unsafe {
        let place = (&raw mut (*sum).accounts).cast::<u64>().add(account);
        *place = (*place).wrapping_add(ns);
    }
}

#[cfg(test)]
mod tests;
