//! Corrections for events that no hook saw, by the kernel's own stamps.
//!
//! Every stay that was seen shows the offset of the kernel's run-queue clock to ours; an unseen switch-in or
//! wake-up is placed by the stamps. Without stamps, or before the first stay, nothing happens here.

use super::{Arrival, BLOCKED, Ledger, RUNNABLE, RUNNING, clocks::Stamps, was_woken};
use crate::{Account, NO_SYSCALL};

impl Ledger {
    /// About to leave a CPU: the kernel's own stamps of this stay show the offset of its clock to ours, or
    /// make up for an unseen switch-in. The first stay of a thread that was running when tracking began shows
    /// nothing, since it began earlier.
    #[inline(always)]
    pub fn leaving(&mut self, now_ns: u64, stamps: Stamps, at: Arrival) {
        if self.state != RUNNING {
            self.arrived_unseen(now_ns, stamps, at);
        } else if self.sequence > 1 {
            self.follow_clock(self.since_ns.wrapping_sub(stamps.arrived));
        }
        self.queued_ns = stamps.queued_ns;
    }

    /// The kernel reads its clock before the switch, at times long before (a hypervisor took the CPU away in
    /// between), so of two similar differences the smaller one is right. Other differences come in slowly:
    /// late ones, the drift between both clocks, and those of a stay that is not the stamped one.
    #[inline(always)]
    fn follow_clock(&mut self, offset_ns: u64) {
        const ALIKE_NS: u64 = 50_000;
        let smaller_by_ns = self.arrival_offset_ns.wrapping_sub(offset_ns);
        if self.arrival_offset_ns == 0 || smaller_by_ns <= ALIKE_NS {
            self.arrival_offset_ns = offset_ns;
        } else {
            // A sixteenth of a signed difference.
            let larger_by_ns = offset_ns.wrapping_sub(self.arrival_offset_ns).cast_signed();
            self.arrival_offset_ns = self.arrival_offset_ns.wrapping_add((larger_by_ns >> 4).cast_unsigned());
        }
    }

    /// When a thread on a CPU came there whose switch-in was not seen, by the kernel's own stamps. `None` if
    /// it was seen, and until an earlier stay has shown the offset of that clock.
    #[inline(always)]
    #[must_use]
    pub fn unseen_arrival_ns(&self, now_ns: u64, stamps: Stamps) -> Option<u64> {
        if self.state == RUNNING || stamps.arrived == 0 || self.arrival_offset_ns == 0 {
            return None;
        }
        let mut arrived_ns = stamps.arrived.wrapping_add(self.arrival_offset_ns);
        // The stamps are a few microseconds apart: not before the last event, nor after now.
        if arrived_ns > now_ns {
            arrived_ns = now_ns;
        }
        if arrived_ns < self.since_ns {
            arrived_ns = self.since_ns;
        }
        Some(arrived_ns)
    }

    /// For a thread on a CPU whose switch-in was not seen: the kernel's own stamps give its time. Nothing
    /// happens until an earlier stay has shown the offset of that clock.
    #[inline(always)]
    pub fn arrived_unseen(&mut self, now_ns: u64, stamps: Stamps, at: Arrival) {
        let Some(arrived_ns) = self.unseen_arrival_ns(now_ns, stamps) else { return };
        if self.state == BLOCKED {
            // Perhaps its wake-up was not seen either. Then the kernel's stamps give the wait for a CPU at
            // the end.
            let queued_ns = stamps.queued_ns.wrapping_sub(self.queued_ns);
            self.woken_unseen(arrived_ns, arrived_ns.wrapping_sub(queued_ns));
        }
        self.missed = self.missed.wrapping_add(1);
        self.switched_in(arrived_ns, at);
    }

    /// The thread's end was seen by no hook: it ended with its last stay on a CPU, which took `stay_ns`.
    /// Returns the time of the end: the last event that was seen where the kernel has no stamps, and never
    /// after `now_ns`.
    #[inline(always)]
    pub fn ended_unseen(&mut self, now_ns: u64, stamps: Stamps, stay_ns: u64, at: Arrival) -> u64 {
        if stamps.arrived == 0 || stay_ns == 0 || self.arrival_offset_ns == 0 {
            return self.since_ns;
        }
        // After a seen arrival it can have left and come back unseen: the stamps show the last stay only.
        let began_ns = if self.state == RUNNING {
            self.since_ns
        } else {
            stamps.arrived.wrapping_add(self.arrival_offset_ns)
        };
        let mut ended_ns = began_ns.wrapping_add(stay_ns);
        if ended_ns > now_ns {
            ended_ns = now_ns;
        }
        if ended_ns <= self.since_ns {
            return self.since_ns;
        }
        self.arrived_unseen(ended_ns, stamps, at);
        self.out_blocked(ended_ns, Account::Other as u8, NO_SYSCALL);
        ended_ns
    }

    /// About to be switched in with its block still open: its wake-up was not seen. `queued` is the kernel's
    /// own stamp of the start of its wait for a CPU, 0 where there is none.
    #[inline(always)]
    pub fn queued_unseen(&mut self, now_ns: u64, queued: u64) {
        if self.state == BLOCKED && queued != 0 && self.arrival_offset_ns != 0 {
            self.woken_unseen(now_ns, queued.wrapping_add(self.arrival_offset_ns));
        }
    }

    /// Ends the block at the seen waking, else at `queued_ns` if that lies within the block.
    #[inline(always)]
    fn woken_unseen(&mut self, now_ns: u64, queued_ns: u64) {
        let waking_was_seen = was_woken(self.since_ns, self.woken_ns, now_ns);
        if !waking_was_seen && queued_ns >= self.since_ns && queued_ns <= now_ns {
            self.woken_ns = queued_ns;
            self.waker = 0;
        }
        let now_ns = self.advance(now_ns);
        self.end_block(now_ns);
        self.become_(RUNNABLE);
    }
}

#[cfg(test)]
#[path = "unseen_tests.rs"]
mod tests;
