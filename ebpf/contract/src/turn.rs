//! Turns of threads on a CPU: who used it while another thread was queued for it.
//!
//! The kernel side keeps the last turns of each CPU, and sums those within a long wait by process: the thread
//! that ran last need not be the one that used most of the time. All times are those of the run queue's
//! clock, of which only differences are used.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::{COMM_BYTES, Header};

/// Turns that are kept of each CPU: a power of two, since it is also a mask. With slices of 3 ms these are
/// the last 760 ms in which threads were queued; with short turns only, 6 ms at least.
pub const TURNS: usize = 256;
/// Shorter turns are added up until their sum is as long, ns: a quarter of the shortest wait that is reported
/// by default.
pub const SHORT_NS: u64 = 25_000;
/// Processes that a record distinguishes.
pub const USERS: usize = 12;

/// One stay of a thread on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Turn {
    /// Start, ns of the run queue's clock.
    pub since_ns: u64,
    /// End, ns of the same clock.
    pub until_ns: u64,
    /// Thread number.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
    /// Name of its process: that of the thread that leads it.
    pub comm: [u8; COMM_BYTES],
}

/// The last turns of one CPU that ended while a thread was queued, or gave way to a tracked thread. An
/// element of the map `TURNS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Turns {
    /// Number of turns so far; the next one is kept at this number modulo [`TURNS`].
    pub count: u64,
    /// Sum of the short turns since the last one that was kept for such, ns.
    pub short_ns: u64,
    /// The last ones.
    pub turns: [Turn; TURNS],
}

/// Time of a process on a CPU within a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuUser {
    /// Its time, ns; 0 for an unused place.
    pub ns: u64,
    /// The last of its threads.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
    /// Name of the process.
    pub comm: [u8; COMM_BYTES],
}

/// Who used a CPU while a thread was queued for it. Precedes the [`WaitRecord`](crate::WaitRecord) of the
/// same thread, and has its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QueueRecord {
    /// `kind` is [`crate::Kind::Queue`]; the time is that of the switch-in.
    pub header: Header,
    /// Start time of the waiting thread; with the thread ID it is unique.
    pub born_ns: u64,
    /// The waiting thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Time of processes beyond those that are listed, ns.
    pub others_ns: u64,
    /// Up to [`USERS`] processes, the last user first.
    pub users: [CpuUser; USERS],
}

impl CpuUser {
    /// Adds a turn, if the place is this process's or unused. Returns whether it is.
    #[inline(always)]
    pub fn takes(&mut self, turn: &Turn, ns: u64) -> bool {
        if self.ns == 0 {
            self.tid = turn.tid;
            self.tgid = turn.tgid;
            self.comm = turn.comm;
        } else if self.tgid != turn.tgid {
            return false;
        }
        self.ns = self.ns.wrapping_add(ns);
        true
    }
}

impl Turn {
    /// Its part after `from_ns`, ns.
    #[inline(always)]
    #[must_use]
    pub const fn within(&self, from_ns: u64) -> u64 {
        let since_ns = if self.since_ns > from_ns { self.since_ns } else { from_ns };
        self.until_ns.saturating_sub(since_ns)
    }
}

const _: () = assert!(size_of::<Turn>() == 40 && size_of::<CpuUser>() == 32 && TURNS.is_power_of_two());
const _: () = assert!(size_of::<Turns>() == 16 + TURNS * size_of::<Turn>());
const _: () = assert!(size_of::<QueueRecord>() == 40 + USERS * size_of::<CpuUser>());

#[cfg(test)]
mod tests {
    use super::*;

    const fn turn(tgid: u32, since_ns: u64, until_ns: u64) -> Turn {
        Turn { since_ns, until_ns, tid: tgid + 1, tgid, comm: [b'a'; COMM_BYTES] }
    }

    #[test]
    fn a_turn_counts_from_the_start_of_the_wait() {
        assert_eq!(
            [turn(1, 10, 15).within(12), turn(1, 10, 15).within(5), turn(1, 10, 15).within(20)],
            [3, 5, 0]
        );
    }

    #[test]
    fn turns_of_one_process_are_one_sum() {
        let mut user = CpuUser::default();
        assert!(user.takes(&turn(7, 0, 4), 4));
        assert!(user.takes(&turn(7, 9, 12), 3));
        assert!(!user.takes(&turn(8, 4, 9), 5));
        assert_eq!((user.ns, user.tid, user.tgid, user.comm), (7, 8, 7, [b'a'; COMM_BYTES]));
    }
}
