//! Run queues of CPUs: the two pointers that lead from a task to its own.

use crate::{
    maps::{OFFSET_CFS_RUNQUEUE, OFFSET_TASK_CFS_RQ},
    memory::{Memory, load},
    task::Task,
};

/// Whether a task's run queue can be found.
#[inline(always)]
pub(crate) fn is_known() -> bool {
    OFFSET_TASK_CFS_RQ.load() != 0 && OFFSET_CFS_RUNQUEUE.load() != 0
}

/// The run queue of the CPU of a task that runs, or is about to.
///
/// # Safety
/// There must be a way to it: see [`is_known`].
#[inline(always)]
pub(crate) unsafe fn of<M: Memory>(task: Task<M>) -> *const u8 {
    // SAFETY: a task and what it leads to, at offsets that the agent resolved. A null pointer reads as 0.
    unsafe { load::<M, _>(task.follow(&OFFSET_TASK_CFS_RQ), &OFFSET_CFS_RUNQUEUE) }
}

/// The same where there may be no way to it: null.
///
/// # Safety
/// The task must be one that runs, or is about to.
#[inline(always)]
pub(crate) unsafe fn here<M: Memory>(task: Task<M>) -> *const u8 {
    if !is_known() {
        return core::ptr::null();
    }
    // SAFETY: the caller's.
    unsafe { of(task) }
}
