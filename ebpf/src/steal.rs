//! The hypervisor's sum of time that it gave to others, for a task's CPU: two pointers and a load.
//!
//! The kernel's copy of it is as old as its last look at the run queue's clock: fresh at a switch, up to a
//! tick old at an edge. A kernel that keeps it only for its statistics looks at ticks: there the task at a
//! tick is charged what was taken since the tick before.

use crate::{
    maps::OFFSET_RUNQUEUE_STEAL,
    memory::{Memory, load},
    runqueue,
    task::Task,
};

/// The sum for the CPU of a task that runs, or is about to; 0 where the kernel keeps none.
#[inline(always)]
pub(crate) fn clock<M: Memory>(task: Task<M>) -> u64 {
    if OFFSET_RUNQUEUE_STEAL.load() == 0 || !runqueue::is_known() {
        return 0;
    }
    // SAFETY: a task and its run queue.
    unsafe { clock_of::<M>(runqueue::of(task)) }
}

/// The same by the CPU's run queue.
///
/// # Safety
/// It must be one, or null.
#[inline(always)]
pub(crate) unsafe fn clock_of<M: Memory>(runqueue: *const u8) -> u64 {
    if OFFSET_RUNQUEUE_STEAL.load() == 0 {
        return 0;
    }
    // SAFETY: the caller's, at an offset that the agent resolved. A null pointer reads as 0.
    unsafe { load::<M, _>(runqueue, &OFFSET_RUNQUEUE_STEAL) }
}
