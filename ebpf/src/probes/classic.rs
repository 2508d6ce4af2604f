//! Family `sched` on kernels without any BTF: classic tracepoints, read by the formats that the kernel
//! publishes.
//!
//! Hooks: tracepoint sched/sched_switch, sched_waking, sched_wakeup, sched_process_exec and
//! task/task_newtask. Yields the same ledgers and records as far as thread IDs suffice: accounts `cpu`,
//! `runq` and `other`. No task is read, so objects of waits, quotas, faults and the kernel's timestamps of
//! arrivals are unknown. A thread is identified by its ID: a thread whose last switch was not seen ends when
//! its ID is reused.

use aya_ebpf::{
    EbpfContext as _, Global,
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::tracepoint,
    programs::TracePointContext,
};
use guestscope_contract::{
    Account, Counter, EXIT_UNSEEN, Kind, NO_SYSCALL,
    ledger::{Ledger, RUNNING},
    waker,
};

use crate::{
    birth, emit,
    life::{self, Other},
    limits,
    maps::{
        FIELD_EXEC_OLD, FIELD_EXEC_TID, FIELD_NEW_FLAGS, FIELD_NEW_TID, FIELD_SWITCH_NEXT, FIELD_SWITCH_PREV,
        FIELD_SWITCH_STATE, FIELD_WAKEUP_TID, FIELD_WAKING_TID, LEDGERS,
    },
    memory::{Memory as _, Plain},
    probes::sched,
    process,
    task::{self, Numbers, SOMEBODY},
    topology, wait,
};

/// The task states of the event; a bit beside them marks preemption. The same since 4.14.
const STATES: u32 = 0xff;
/// `EXIT_DEAD | EXIT_ZOMBIE`.
const ENDED: u32 = 0x10 | 0x20;
/// Stands for a group, which is not known here: the leader before was not seen to end.
const HAS_REPLACED: u64 = 1;
/// `CLONE_THREAD`.
const CLONE_THREAD: u64 = 0x1_0000;

/// A field of the event. The verifier allows no access to a context by a variable offset.
#[inline(always)]
fn field<T: Copy>(ctx: &TracePointContext, offset: &Global<u32>) -> T {
    // SAFETY: the BPF helper checks the memory; the agent resolved the offset of a number of this size.
    unsafe { Plain::read(ctx.as_ptr().cast::<u8>().add(offset.load() as usize)) }
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the BPF helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

#[tracepoint(category = "sched", name = "sched_switch")]
pub(crate) fn tp_sched_switch(ctx: TracePointContext) -> u32 {
    let prev: u32 = field(&ctx, &FIELD_SWITCH_PREV);
    let next: u32 = field(&ctx, &FIELD_SWITCH_NEXT);
    let mut now_ns = 0;
    if let Some(ledger) = task::ledger(prev, SOMEBODY) {
        now_ns = now();
        // SAFETY: a ledger in a map value; its thread is leaving this CPU under its run-queue lock.
        leaves(unsafe { &mut *ledger }, field::<u64>(&ctx, &FIELD_SWITCH_STATE) as u32, next, now_ns);
    }
    if let Some(ledger) = task::ledger(next, SOMEBODY) {
        if now_ns == 0 {
            now_ns = now();
        }
        // SAFETY: a ledger in a map value; the run-queue lock of this CPU is held, so no other event of it
        // runs.
        unsafe {
            let left_cpu = (*ledger).cpu;
            (*ledger).switched_in(now_ns, topology::arrival(&*ledger));
            // The leaving thread is still the current task.
            let tgid = || (bpf_get_current_pid_tgid() >> 32) as u32;
            let before = || Numbers { tid: prev, tgid: tgid(), address: SOMEBODY };
            wait::ended(&*ledger, before, limits::unknown, left_cpu, now_ns);
        }
    }
    0
}

#[inline(always)]
fn leaves(ledger: &mut Ledger, state: u32, next: u32, now_ns: u64) {
    if ledger.group == HAS_REPLACED && is_its_old_leader(ledger, state) {
        return;
    }
    ledger.replaced_by_tid = next;
    if state & STATES == 0 {
        return ledger.out_runnable(now_ns);
    }
    ledger.out_blocked(now_ns, Account::Other as u8, NO_SYSCALL);
    if state & ENDED != 0 {
        sched::ended(ledger, SOMEBODY, now_ns);
    }
}

/// A thread that became the leader by an exec has the number of the old leader, which may still be on its way
/// out: the first end is the old one's, and so is a switch away from a CPU that this thread is not on.
#[inline(always)]
fn is_its_old_leader(ledger: &mut Ledger, state: u32) -> bool {
    if state & ENDED != 0 {
        ledger.group = 0;
        return true;
    }
    // SAFETY: the BPF helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u16;
    ledger.state == RUNNING && ledger.cpu != cpu
}

#[tracepoint(category = "sched", name = "sched_waking")]
pub(crate) fn tp_sched_waking(ctx: TracePointContext) -> u32 {
    if let Some(ledger) = task::ledger(field(&ctx, &FIELD_WAKING_TID), SOMEBODY) {
        // The waker's system call is not known here.
        let waker = waker::pack(bpf_get_current_pid_tgid() as u32, waker::UNSEEN.into());
        // SAFETY: a ledger in a map value; `waking` writes only its stamp.
        unsafe {
            let now_ns = now();
            (*ledger).waking(now_ns, waker);
            wait::note_waker(&*ledger, now_ns);
        }
    }
    0
}

#[tracepoint(category = "sched", name = "sched_wakeup")]
pub(crate) fn tp_sched_wakeup(ctx: TracePointContext) -> u32 {
    if let Some(ledger) = task::ledger(field(&ctx, &FIELD_WAKEUP_TID), SOMEBODY) {
        // SAFETY: a ledger in a map value; the task is being enqueued under its run-queue lock.
        unsafe { (*ledger).wakeup(now()) };
    }
    0
}

/// Runs in the creator's context, before the child can run. The tracepoint of forks does not distinguish
/// threads from processes.
#[tracepoint(category = "task", name = "task_newtask")]
pub(crate) fn tp_task_newtask(ctx: TracePointContext) -> u32 {
    let tid: u32 = field(&ctx, &FIELD_NEW_TID);
    end_unseen(tid);
    let maker = bpf_get_current_pid_tgid();
    let Some(parent) = task::ledger(maker as u32, SOMEBODY) else { return 0 };
    let mut tgid = (maker >> 32) as u32;
    if field::<u64>(&ctx, &FIELD_NEW_FLAGS) & CLONE_THREAD == 0 {
        tgid = tid;
        process::forget(tgid);
    }
    birth::numbered(&ctx, parent, Numbers { tid, tgid, address: SOMEBODY }, |_| ());
    0
}

/// A new thread has this number: the tracked one under it has ended unseen.
#[inline(always)]
fn end_unseen(tid: u32) {
    let slot = task::slot_of(tid);
    if slot == 0 {
        return;
    }
    let Some(ledger) = LEDGERS.get_ptr(u32::from(slot)) else { return };
    emit::count(Counter::UnseenEnd);
    // SAFETY: a ledger in a map value, of a thread that will never run again. When it ended is not known.
    unsafe {
        life::record(Kind::Exit, EXIT_UNSEEN, &*ledger, SOMEBODY, (*ledger).since_ns, Other::NONE);
        sched::gone(&*ledger);
    }
}

#[tracepoint(category = "sched", name = "sched_process_exec")]
pub(crate) fn tp_sched_process_exec(ctx: TracePointContext) -> u32 {
    let (tid, old_tid) = (field(&ctx, &FIELD_EXEC_TID), field(&ctx, &FIELD_EXEC_OLD));
    if sched::becomes(tid, old_tid, SOMEBODY)
        && let Some(ledger) = task::ledger(tid, SOMEBODY)
    {
        // SAFETY: a ledger in a map value, of the thread that runs this program.
        unsafe { (*ledger).group = HAS_REPLACED };
    }
    0
}
