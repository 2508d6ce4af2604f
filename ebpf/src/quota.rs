//! The part of a wait for a CPU that is the group's lack of quota, by the throttle clock of a thread's group
//! on its CPU.
//!
//! A thread gets no event when its group runs out: others of the group may use the quota up while it waits.
//! So the clock is read where a wait begins and where it ends. Neither quotas nor cgroup files are read.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use guestscope_contract::{
    ThrottleMode,
    ledger::{LIMITED, Ledger, RUNNABLE, ThrottleClock},
};

use crate::{
    maps::{
        OFFSET_CFS_CLOCK, OFFSET_CFS_COUNT, OFFSET_CFS_RUNQUEUE, OFFSET_CFS_TIME, OFFSET_RUNQUEUE_CLOCK,
        OFFSET_RUNQUEUE_CLOCK_PELT, OFFSET_RUNQUEUE_CLOCK_TASK, OFFSET_RUNQUEUE_LOST, OFFSET_TASK_CFS_RQ,
        OFFSET_TASK_THROTTLED, THROTTLE_MODE,
    },
    memory::{Memory, load},
    task::Task,
};

pub(crate) const ABSENT: u32 = ThrottleMode::Absent as u32;
const OWN: u32 = ThrottleMode::Own as u32;
const PELT: u32 = ThrottleMode::Pelt as u32;
/// Stands for the clock of a thread that is kept off any queue while no queue's clock shows it: all of its
/// wait is throttled. No queue has this address.
pub(crate) const OWN_CLOCK: u64 = 1;

/// A wait has begun by a switch: may it be throttled? From 6.18 on the kernel takes single tasks off the
/// queue, and marks them at this switch; those that stay on it compete as ever.
#[inline(always)]
pub(crate) fn left<M: Memory>(task: Task<M>, ledger: &mut Ledger) {
    if THROTTLE_MODE.load() == ABSENT {
        return;
    }
    if OFFSET_TASK_THROTTLED.load() != 0 {
        // SAFETY: a task, and the agent resolved the offset of a bool.
        let throttled = unsafe { task.load::<u8>(&OFFSET_TASK_THROTTLED) };
        if throttled == 0 {
            return;
        }
    }
    ledger.limit(clock(task));
}

/// A wait has begun by a wake-up: before 6.18 it may join a throttled queue. A wake-up of a thread that
/// already waits for a CPU (it was preempted on its way to sleep) begins nothing.
#[inline(always)]
pub(crate) fn woken<M: Memory>(task: Task<M>, ledger: &mut Ledger) {
    let may_be_limited = THROTTLE_MODE.load() != ABSENT && OFFSET_TASK_THROTTLED.load() == 0;
    if may_be_limited && ledger.state == RUNNABLE {
        ledger.limit(clock(task));
    }
}

/// A wait ends.
#[inline(always)]
pub(crate) fn arriving<M: Memory>(task: Task<M>, ledger: &mut Ledger, now_ns: u64) {
    if THROTTLE_MODE.load() != ABSENT && ledger.state == LIMITED {
        let clock = clock_of_wait(task, ledger, now_ns);
        ledger.throttled(now_ns, clock);
    }
}

/// The clock by which a task's wait began: its group's, or that of the group from which it was removed in
/// between, which may be freed already. Memory that is no longer a queue of this CPU is ignored; other wrong
/// values are bounded by the wait.
#[inline(always)]
pub(crate) fn clock_of_wait<M: Memory>(task: Task<M>, ledger: &Ledger, now_ns: u64) -> ThrottleClock {
    if ledger.group == OWN_CLOCK {
        return ThrottleClock { group: OWN_CLOCK, ns: now_ns };
    }
    let clock = clock(task);
    if clock.group == ledger.group {
        return clock;
    }
    let runqueue_of = |group: u64| read(group, OFFSET_CFS_RUNQUEUE.load());
    if runqueue_of(ledger.group) == runqueue_of(clock.group) { clock_at(ledger.group) } else { clock }
}

/// A word of the kernel's memory at any address; 0 where it cannot be read.
#[inline(always)]
fn read(address: u64, offset: u32) -> u64 {
    // SAFETY: the BPF helper checks the memory that it reads.
    unsafe { bpf_probe_read_kernel((address + u64::from(offset)) as *const u64) }.unwrap_or(0)
}

/// The clock of a task's group on the CPU whose queue it is on, up to now.
#[inline(always)]
fn clock<M: Memory>(task: Task<M>) -> ThrottleClock {
    // SAFETY: a task and what it leads to, at offsets of members of these sizes that the agent resolved. A
    // null pointer reads as 0.
    unsafe {
        let queue = task.follow(&OFFSET_TASK_CFS_RQ);
        let group = queue as u64;
        let mut ns: u64 = load::<M, _>(queue, &OFFSET_CFS_TIME);
        let count: u32 = load::<M, _>(queue, &OFFSET_CFS_COUNT);
        if count != 0 {
            let since: u64 = load::<M, _>(queue, &OFFSET_CFS_CLOCK);
            let runqueue: *const u8 = load::<M, _>(queue, &OFFSET_CFS_RUNQUEUE);
            let now = match THROTTLE_MODE.load() {
                OWN => load::<M, _>(runqueue, &OFFSET_RUNQUEUE_CLOCK),
                PELT => load::<M, u64>(runqueue, &OFFSET_RUNQUEUE_CLOCK_PELT)
                    .wrapping_sub(load::<M, _>(runqueue, &OFFSET_RUNQUEUE_LOST)),
                _ => load::<M, _>(runqueue, &OFFSET_RUNQUEUE_CLOCK_TASK),
            };
            ns = ns.wrapping_add(open(since, now));
        }
        ThrottleClock { group, ns }
    }
}

/// The same for any group, by its address, at 15 ns a read: only for a waiting thread that is moved, or read
/// by another CPU.
#[inline(always)]
pub(crate) fn clock_at(group: u64) -> ThrottleClock {
    let mut ns = read(group, OFFSET_CFS_TIME.load());
    // An int beside other members: the low half is the count on a little-endian machine.
    if read(group, OFFSET_CFS_COUNT.load()) as u32 != 0 {
        let since = read(group, OFFSET_CFS_CLOCK.load());
        let runqueue = read(group, OFFSET_CFS_RUNQUEUE.load());
        let now = match THROTTLE_MODE.load() {
            OWN => read(runqueue, OFFSET_RUNQUEUE_CLOCK.load()),
            PELT => read(runqueue, OFFSET_RUNQUEUE_CLOCK_PELT.load())
                .wrapping_sub(read(runqueue, OFFSET_RUNQUEUE_LOST.load())),
            _ => read(runqueue, OFFSET_RUNQUEUE_CLOCK_TASK.load()),
        };
        ns = ns.wrapping_add(open(since, now));
    }
    ThrottleClock { group, ns }
}

/// Throttled part so far of an open wait that has lasted `wait_ns`: for a thread of another CPU.
///
/// # Safety
/// `ledger` must point to a whole ledger.
#[inline(always)]
pub(crate) unsafe fn open_ns(ledger: *const Ledger, wait_ns: u64) -> u64 {
    // SAFETY: the caller's.
    let (group, begin, since_ns) =
        unsafe { ((*ledger).group, (*ledger).throttle_clock_ns, (*ledger).since_ns) };
    let now = if group == OWN_CLOCK { since_ns.wrapping_add(wait_ns) } else { clock_at(group).ns };
    let throttled_ns = now.wrapping_sub(begin);
    if throttled_ns.cast_signed() <= 0 {
        0
    } else if throttled_ns > wait_ns {
        wait_ns
    } else {
        throttled_ns
    }
}

/// The running episode's part. From 6.6 on it begins when a task is there to be kept from running, and is 0
/// before.
#[inline(always)]
fn open(since: u64, now: u64) -> u64 {
    let ns = now.wrapping_sub(since);
    if (since == 0 && THROTTLE_MODE.load() == OWN) || ns.cast_signed() < 0 { 0 } else { ns }
}
