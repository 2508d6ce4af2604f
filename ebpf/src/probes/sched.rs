//! Family `sched`: switches, wake-ups, births, execs and ends of tracked threads.
//!
//! Hooks: tp_btf or raw_tp sched_switch, sched_waking, sched_wakeup, sched_wakeup_new, sched_process_exec,
//! sched_process_free, task_rename, and the program `adopt`, which the agent's child runs on itself. Yields
//! the ledgers, and fork, exec, exit and rename records. A switch between two untracked tasks costs two
//! failed lookups, and reads no clock. It does not handle phases.

use core::hint::cold_path;

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use guestscope_contract::{
    Account, Counter, EXIT_REPLACED, EXIT_UNSEEN, FORK_ADOPTED, Kind, NO_SYSCALL,
    ledger::{BLOCKED, Ledger, RUNNING},
};

use crate::{
    birth, blocked, calls, driver, emit,
    life::{self, Other},
    limits,
    maps::{HAS_SWITCH_STATE, LEDGERS, OFFSET_TASK_CPU, OFFSET_TASK_LAST_QUEUED, OFFSET_TASK_STATE},
    memory::{Arguments, Memory, twins},
    pending, process, quota, registers, runqueue, slots, starts, steal,
    task::{self, Current, Numbers, Task},
    topology, turns, wait, workers,
};

/// `TASK_DEAD`: the task will never run again. The only bit of the state that survives the final switch.
pub(crate) const TASK_DEAD: u32 = 0x80;

twins! {
    sched_switch raw_sched_switch "sched_switch" switches;
    sched_waking raw_sched_waking "sched_waking" wakes;
    sched_wakeup raw_sched_wakeup "sched_wakeup" is_awake;
    sched_wakeup_new raw_sched_wakeup_new "sched_wakeup_new" births;
    sched_process_exec raw_sched_process_exec "sched_process_exec" execs;
    sched_process_free raw_sched_process_free "sched_process_free" is_freed;
    task_rename raw_task_rename "task_rename" renames;
}

#[inline(always)]
fn switches<C: Arguments>(ctx: &C) -> i32 {
    let prev = Task::<C::Memory>::at(ctx.at(1));
    let next = Task::<C::Memory>::at(ctx.at(2));
    // One clock reading for both, only when one of them is tracked: reading it is a third of the cost of a
    // switch. Likewise the time stolen from this CPU.
    let (mut now_ns, mut stolen_ns) = (0, 0);
    let mut runqueue = core::ptr::null();
    let prev_ledger = prev.ledger();
    if let Some(ledger) = prev_ledger {
        // SAFETY: the BPF helper has no preconditions; `prev` leaves this CPU under its run-queue lock.
        unsafe {
            runqueue = runqueue::here(prev);
            (now_ns, stolen_ns) = (bpf_ktime_get_ns(), steal::clock_of::<C::Memory>(runqueue));
        }
        switch_out(ctx, prev, ledger, now_ns, stolen_ns);
    }
    // Not before: the verifier would go through the above for each of its answers.
    let next_ledger = next.ledger();
    if prev_ledger.is_none() {
        // The idle task has no turns.
        if next_ledger.is_none() && prev.tid() == 0 {
            return 0;
        }
        // SAFETY: as above.
        runqueue = unsafe { runqueue::here(prev) };
    }
    if prev_ledger.is_none() && next_ledger.is_some() {
        // SAFETY: as above.
        (now_ns, stolen_ns) = unsafe { (bpf_ktime_get_ns(), steal::clock_of::<C::Memory>(runqueue)) };
    }
    // SAFETY: a ledger in a map value.
    let is_awaited = next_ledger.is_some_and(|ledger| wait::is_long(unsafe { &*ledger }, now_ns));
    // SAFETY: the run queue is this CPU's.
    unsafe { turns::ends(prev, runqueue, is_awaited) };
    if let Some(ledger) = next_ledger {
        // SAFETY: a ledger in a map value; the run-queue lock of this CPU is held, so no other event of it
        // runs. The agent resolved the offset of an 8-byte member.
        unsafe {
            if (*ledger).state == BLOCKED && OFFSET_TASK_LAST_QUEUED.load() != 0 {
                (*ledger).queued_unseen(now_ns, next.load(&OFFSET_TASK_LAST_QUEUED));
            }
            quota::arriving(next, &mut *ledger, now_ns);
            let left_cpu = (*ledger).cpu;
            (*ledger).switched_in(now_ns, topology::arrival(&*ledger));
            (*ledger).stolen_from(stolen_ns);
            if is_awaited {
                cold_path();
                turns::tell(prev, runqueue, &*ledger, left_cpu, now_ns);
                let before =
                    || Numbers { tid: prev.tid(), tgid: prev.tgid(), address: prev.address() as u64 };
                wait::ended(&*ledger, before, || limits::of(next, &*ledger), left_cpu, now_ns);
            }
        }
    }
    0
}

#[inline(always)]
fn switch_out<C: Arguments>(
    ctx: &C,
    prev: Task<C::Memory>,
    ledger: *mut Ledger,
    now_ns: u64,
    stolen_ns: u64,
) {
    let preempt: u64 = ctx.at(0);
    let state: u32 = if HAS_SWITCH_STATE.load() != 0 {
        ctx.at::<u64>(3) as u32
    } else {
        // SAFETY: the agent resolved the offset of the state.
        unsafe { prev.load(&OFFSET_TASK_STATE) }
    };
    // SAFETY: a ledger in a map value; `prev` is leaving this CPU under its run-queue lock.
    let ledger = unsafe { &mut *ledger };
    stay(prev, ledger, now_ns, stolen_ns);
    ledger.replaced_by_tid = Task::<C::Memory>::at(ctx.at(2)).tid();
    // The first argument is a bool: the register's upper bytes are not defined.
    if preempt & 0xff != 0 || state == 0 {
        ledger.out_runnable(now_ns);
        quota::left(prev, ledger);
    } else if state & TASK_DEAD != 0 {
        cold_path();
        ledger.out_blocked(now_ns, Account::Other as u8, NO_SYSCALL);
        driver::ends(prev, ledger);
        ended(ledger, prev.address() as u64, now_ns);
    } else {
        let (account, syscall) = blocked::classify(prev, state, ledger.syscall);
        let account = driver::account(prev, ledger.slot, account, syscall);
        ledger.out_blocked(now_ns, account, syscall);
    }
}

/// Measured on 6.18: switches away from some tasks, and wake-ups while they run, reach no tracepoint at all
/// (perf misses the same ones), so the next task seems to wait on while it runs. The kernel's own timestamps
/// show it.
#[inline(always)]
fn stay<M: Memory>(prev: Task<M>, ledger: &mut Ledger, now_ns: u64, stolen_ns: u64) {
    // A wait whose end was not seen: the clock has stood still since the thread ran.
    quota::arriving(prev, ledger, now_ns);
    let at = topology::arrival(ledger);
    ledger.stolen_until(now_ns, at.cpu, stolen_ns);
    let stamps = prev.stamps();
    if stamps.arrived == 0 {
        return;
    }
    ledger.leaving(now_ns, stamps, at);
}

/// The final switch: the whole ledger is handed over, and the slot is freed.
#[inline(always)]
pub(crate) fn ended(ledger: &Ledger, address: u64, now_ns: u64) {
    life::record(Kind::Exit, 0, ledger, address, now_ns, Other::NONE);
    gone(ledger);
}

/// The slot is freed, and the thread's time stays with its process.
#[inline(always)]
pub(crate) fn gone(ledger: &Ledger) {
    process::leave(ledger);
    task::set_slot(ledger.tid, 0);
    slots::release(ledger.slot);
}

#[inline(always)]
fn wakes<C: Arguments>(ctx: &C) -> i32 {
    let woken = Task::<C::Memory>::at(ctx.at(0));
    if let Some(ledger) = woken.ledger() {
        // In an interrupt this is the interrupted task; the reader of the record takes that into account.
        let waker = Current::new();
        // SAFETY: a ledger in a map value; `waking` writes only its stamp. The clock has no preconditions.
        unsafe {
            // What a device ends needs no call.
            let is_for_others = (*ledger).account != Account::BlockIo as u8;
            let waker = if is_for_others { waker.with_its_call() } else { waker.alone() };
            let now_ns = bpf_ktime_get_ns();
            (*ledger).waking(now_ns, waker);
            if is_for_others {
                wait::note_waker(&*ledger, now_ns);
            }
        }
    }
    0
}

#[inline(always)]
fn is_awake<C: Arguments>(ctx: &C) -> i32 {
    let woken = Task::<C::Memory>::at(ctx.at(0));
    if let Some(ledger) = woken.ledger() {
        // SAFETY: a ledger in a map value; the task is being enqueued under its run-queue lock, after its
        // switch-out is done. The clock has no preconditions.
        unsafe {
            (*ledger).wakeup(bpf_ktime_get_ns());
            quota::woken(woken, &mut *ledger);
        }
    }
    0
}

/// A new task is enqueued by its creator. Not at `sched_process_fork`: from 7.0 on programs there can be
/// preempted, and the kernel runs none a second time on a CPU where it is running (a46023d5616e), so that
/// forks were missed. Here the lock of a run queue is held.
#[inline(always)]
fn births<C: Arguments>(ctx: &C) -> i32 {
    let (current, child) = (Current::new(), Task::<C::Memory>::at(ctx.at(0)));
    match current.ledger() {
        Some(parent) => birth::of(ctx, parent, child),
        None => workers::born_of_worker(current, child),
    }
    0
}

/// An exec from a thread that is not the leader takes over the leader's number: the slot moves with it.
#[inline(always)]
fn execs<C: Arguments>(ctx: &C) -> i32 {
    let task = Task::<C::Memory>::at(ctx.at(0));
    let old_tid = ctx.at::<u64>(1) as u32;
    if starts::are_told() && task::ledger(old_tid, task.address() as u64).is_none() {
        // SAFETY: the third argument is the program that is executed.
        unsafe { starts::tell::<C::Memory>(task.tid(), ctx.at(2)) };
    }
    becomes(task.tid(), old_tid, task.address() as u64);
    0
}

/// The running thread has a new program, and this number from now on. Returns whether the number was that of
/// a leader whose end was not seen.
#[inline(always)]
pub(crate) fn becomes(tid: u32, old_tid: u32, address: u64) -> bool {
    let Some(ledger) = task::ledger(old_tid, address) else { return false };
    let mut leader_born_ns = 0;
    // SAFETY: ledgers in map values; the task is running this very hook. The clock has no preconditions.
    unsafe {
        let now_ns = bpf_ktime_get_ns();
        if old_tid != tid {
            let leader = task::slot_of(tid);
            if leader != 0 {
                // The old leader is gone, or about to switch for the last time under an untracked number:
                // this is the last sign of it.
                if let Some(gone) = LEDGERS.get_ptr(u32::from(leader)) {
                    leader_born_ns = (*gone).born_ns;
                    driver::drops(leader);
                    let other = Other { tid: old_tid, ..Other::NONE };
                    life::record(Kind::Exit, EXIT_REPLACED, &*gone, (*gone).task, now_ns, other);
                    process::leave(&*gone);
                }
                slots::release(leader);
            }
            task::set_slot(old_tid, 0);
            task::set_slot(tid, (*ledger).slot);
            (*ledger).tid = tid;
        }
        process::replaced(&*ledger, now_ns);
        wait::forget_edges(u32::from((*ledger).slot));
        calls::forget((*ledger).slot);
        driver::drops((*ledger).slot);
        let other = Other { tid: old_tid, tgid: 0, born_ns: leader_born_ns };
        life::record(Kind::Exec, 0, &*ledger, address, now_ns, other);
    }
    leader_born_ns != 0
}

/// A task gets another name, of itself mostly: threads of a pool have their maker's name at birth.
#[inline(always)]
fn renames<C: Arguments>(ctx: &C) -> i32 {
    let task = Task::<C::Memory>::at(ctx.at(0));
    if let Some(ledger) = task.ledger() {
        // SAFETY: a ledger in a map value. The clock has no preconditions.
        unsafe { life::renamed(&*ledger, task.address() as u64, bpf_ktime_get_ns(), ctx.at(1)) };
    }
    0
}

/// The kernel frees a task some time after its final switch. A task that is still tracked has ended unseen.
#[inline(always)]
fn is_freed<C: Arguments>(ctx: &C) -> i32 {
    let task = Task::<C::Memory>::at(ctx.at(0));
    let Some(ledger) = task.ledger() else {
        workers::freed(task);
        return 0;
    };
    emit::count(Counter::UnseenEnd);
    // SAFETY: a ledger in a map value, of a task that will never run again. The agent resolved the offset of
    // an unsigned int.
    unsafe {
        let ledger = &mut *ledger;
        let cpu =
            if OFFSET_TASK_CPU.load() != 0 { task.load::<u32>(&OFFSET_TASK_CPU) as u16 } else { ledger.cpu };
        let at = topology::arrival_on(ledger, cpu);
        let (now_ns, stamps) = (bpf_ktime_get_ns(), task.stamps());
        let seen_ns = ledger.accounts[Account::Cpu as usize];
        let ended_ns = ledger.ended_unseen(now_ns, stamps, task.last_stay_ns(seen_ns), at);
        driver::drops(ledger.slot);
        life::record(Kind::Exit, EXIT_UNSEEN, ledger, task.address() as u64, ended_ns, Other::NONE);
        gone(ledger);
    }
    0
}

/// Run by a task on itself (BPF_PROG_TEST_RUN of a raw tracepoint program happens in the caller's context):
/// from now on it is tracked, in whatever PID namespace it is.
#[raw_tracepoint(tracepoint = "sys_enter")]
pub(crate) fn adopt(_ctx: RawTracePointContext) -> i32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    registers::find();
    // SAFETY: the BPF helpers have no preconditions; the ledger is in a map value and its task is running
    // this program.
    unsafe {
        let address = Current::new().address;
        if let Some(ledger) = slots::create(pid_tgid as u32, (pid_tgid >> 32) as u32, address) {
            let now_ns = bpf_ktime_get_ns();
            (*ledger).begin(now_ns, RUNNING, bpf_get_smp_processor_id() as u16);
            pending::begins(ledger, Current::new().read_bytes());
            life::record(Kind::Fork, FORK_ADOPTED, &*ledger, address, now_ns, Other::NONE);
        }
    }
    0
}
