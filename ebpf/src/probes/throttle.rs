//! Family `throttle`: a waiting thread that is moved to another CPU continues under another clock.
//!
//! Hook: tp_btf or raw_tp sched_migrate_task. Yields the clock of the thread's group on its new CPU to its
//! ledger; what that clock says of a wait stands in `quota.rs`.

use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel};
use guestscope_contract::ledger::{LIMITED, ThrottleClock};

use crate::{
    maps::{OFFSET_GROUP_CFS_RQ, OFFSET_TASK_GROUP, OFFSET_TASK_THROTTLED, THROTTLE_MODE},
    memory::{Arguments, Memory, load, twins},
    quota::{ABSENT, OWN_CLOCK, clock_at, clock_of_wait},
    task::Task,
};

twins! {
    sched_migrate_task raw_sched_migrate_task "sched_migrate_task" migrates;
}

/// Runs before the move: the task still has its old queue.
#[inline(always)]
fn migrates<C: Arguments>(ctx: &C) -> i32 {
    let task = Task::<C::Memory>::at(ctx.at(0));
    let cpu = u64::from(ctx.at::<u64>(1) as u32);
    if THROTTLE_MODE.load() == ABSENT {
        return 0;
    }
    let Some(ledger) = task.ledger() else { return 0 };
    // SAFETY: a ledger in a map value; the lock of the run queue that the task leaves is held, so it is not
    // switched in meanwhile. The clock has no preconditions. The agent resolved the offsets of two pointers.
    unsafe {
        let ledger = &mut *ledger;
        // Only a thread whose wait has begun. A thread that is about to be woken waits for something else.
        if ledger.state == LIMITED {
            let now_ns = bpf_ktime_get_ns();
            let clock = clock_of_wait(task, ledger, now_ns);
            ledger.throttled(now_ns, clock);
            ledger.limit(clock_elsewhere(task, cpu, now_ns));
        }
    }
    0
}

/// The clock by which a moved thread goes on waiting.
#[inline(always)]
fn clock_elsewhere<M: Memory>(task: Task<M>, cpu: u64, now_ns: u64) -> ThrottleClock {
    // SAFETY: a task, its group, and an array of pointers, at offsets that the agent resolved; of a bool as
    // well.
    unsafe {
        if OFFSET_GROUP_CFS_RQ.load() != 0 {
            let group = task.follow(&OFFSET_TASK_GROUP);
            let queues: u64 = load::<M, _>(group, &OFFSET_GROUP_CFS_RQ);
            return clock_at(bpf_probe_read_kernel((queues + cpu * 8) as *const u64).unwrap_or(0));
        }
        // The thread is also kept off the new queue, mostly by the same lack of quota. The new queue's clock
        // does not show that: it starts when a thread is taken off that queue, and this thread was never on
        // it.
        let is_kept_off = OFFSET_TASK_THROTTLED.load() != 0 && task.load::<u8>(&OFFSET_TASK_THROTTLED) != 0;
        if is_kept_off {
            ThrottleClock { group: OWN_CLOCK, ns: now_ns }
        } else {
            ThrottleClock { group: 0, ns: 0 }
        }
    }
}
