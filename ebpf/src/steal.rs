//! The hypervisor's sum of time that it gave to others, for a task's CPU: two pointers and a load.
//!
//! The kernel's copy of it is as old as its last look at the run queue's clock: fresh at a switch, up to a
//! tick old at an edge. A kernel that keeps it only for its statistics looks at ticks: there the task at a
//! tick is charged what was taken since the tick before.

use crate::{
    maps::{OFFSET_CFS_RUNQUEUE, OFFSET_RUNQUEUE_STEAL, OFFSET_TASK_CFS_RQ},
    memory::{Memory, load},
    task::Task,
};

/// Whether a task's run queue can be found.
#[inline(always)]
pub(crate) fn has_runqueue() -> bool {
    OFFSET_TASK_CFS_RQ.load() != 0 && OFFSET_CFS_RUNQUEUE.load() != 0
}

/// The run queue of the CPU of a task that runs, or is about to.
///
/// # Safety
/// There must be a way to it: see [`has_runqueue`].
#[inline(always)]
pub(crate) unsafe fn runqueue<M: Memory>(task: Task<M>) -> *const u8 {
    // SAFETY: a task and what it leads to, at offsets that the agent resolved. A null pointer reads as 0.
    unsafe { load::<M, _>(task.follow(&OFFSET_TASK_CFS_RQ), &OFFSET_CFS_RUNQUEUE) }
}

/// The sum for the CPU of a task that runs, or is about to; 0 where the kernel keeps none.
#[inline(always)]
pub(crate) fn clock<M: Memory>(task: Task<M>) -> u64 {
    if OFFSET_RUNQUEUE_STEAL.load() == 0 || !has_runqueue() {
        return 0;
    }
    // SAFETY: a task and its run queue, at an offset that the agent resolved.
    unsafe { load::<M, _>(runqueue(task), &OFFSET_RUNQUEUE_STEAL) }
}
