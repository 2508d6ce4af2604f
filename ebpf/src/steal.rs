//! The hypervisor's sum of time that it gave to others, of the CPU that a task is on: two pointers and a load.
//!
//! The kernel's copy of it is as old as its last look at the run queue's clock: none at a switch, up to a tick at an edge. A kernel
//! that keeps it for its statistics alone looks at ticks: there who runs at a tick has what was taken since the one before.

use crate::{
    maps::{OFFSET_CFS_RUNQUEUE, OFFSET_RUNQUEUE_STEAL, OFFSET_TASK_CFS_RQ},
    memory::{Memory, load},
    task::Task,
};

/// Of the CPU of a task that runs, or is about to; 0 where the kernel keeps none.
#[inline(always)]
pub(crate) fn clock<M: Memory>(task: Task<M>) -> u64 {
    if OFFSET_RUNQUEUE_STEAL.load() == 0 || OFFSET_TASK_CFS_RQ.load() == 0 || OFFSET_CFS_RUNQUEUE.load() == 0
    {
        return 0;
    }
    // SAFETY: a task and what it leads to, at offsets that the agent resolved. A null pointer reads as 0.
    unsafe {
        let queue = task.follow(&OFFSET_TASK_CFS_RQ);
        let runqueue: *const u8 = load::<M, _>(queue, &OFFSET_CFS_RUNQUEUE);
        load::<M, _>(runqueue, &OFFSET_RUNQUEUE_STEAL)
    }
}
