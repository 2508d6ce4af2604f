//! Family `attach`: tracking of threads that already run.
//!
//! Hook: the task iterator, run once for each task when the agent reads it. Yields a ledger and an adopted
//! fork record for each thread of the requested processes, and reports its findings to the agent. It runs
//! concurrently with anything that a task may do. Control groups and containers are resolved by the agent.
//!
//! No thread gets two ledgers, and no thread is missed in the end:
//!
//! * The other hooks are attached first. A thread under creation has the state `TASK_NEW` until its first
//!   wake-up, and no CPU timestamp until that hook has run. Such a thread is skipped here: either its creator
//!   is tracked by then, or a later visit finds it. Any other thread without a ledger will not get one from
//!   its creator, so no ledger is made twice. Where the kernel keeps no such timestamps, a short race between
//!   the state and the hook remains.
//! * A new thread has a higher ID than its creator, and the visit goes upwards, so it also reaches threads
//!   that are created during the visit. Where IDs wrap around, the next visit finds them: the agent repeats
//!   visits until one finds nothing.
//!
//! The task may be switched on its own CPU while its ledger is written. The slot is published last: before
//! that the switch finds no ledger, after that a whole one. The thread's activity is read earlier and may
//! have changed by then. So it is checked again after publishing, and at the next visit, as long as no event
//! has come. Only the state and its account are corrected, so the accounts always add up. From the first
//! event on the ledger is right, and only the microsecond before it can be wrong:
//!
//! * on a CPU by the ledger, and switched in: that is `missed`, and the time since is `cpu`;
//! * off the CPU by the ledger, and switched out: `missed` too, and the time since belongs to its assumed
//!   wait;
//! * waiting for a CPU by the ledger, and woken: nothing happens, and the time since is `runq`.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_ktime_get_ns,
    generated::{bpf_get_smp_processor_id, bpf_seq_write},
};
use guestscope_contract::{
    Account, FORK_ADOPTED, FORK_LATE, Kind, NO_SYSCALL,
    ledger::{BLOCKED, LIMITED, Ledger, RUNNABLE, RUNNING},
    visit::{Found, Visit},
};

use crate::{
    blocked,
    held::PF_KTHREAD,
    life::{self, Other},
    maps::{
        OFFSET_TASK_CPU, OFFSET_TASK_DELAYED, OFFSET_TASK_EXIT_STATE, OFFSET_TASK_FLAGS, OFFSET_TASK_LEADER,
        OFFSET_TASK_ON_CPU, OFFSET_TASK_ON_RQ, OFFSET_TASK_READ_BYTES, OFFSET_TASK_STATE,
        OFFSET_TASK_THREAD_PID, TARGETS,
    },
    memory::{Plain, Typed, load},
    origin, pending,
    probes::sched,
    process, quota, registers, slots,
    task::{self, Current, Task},
};

/// `TASK_NEW`: not woken yet for the first time.
const TASK_NEW: u32 = 0x800;
/// The sequence number of a ledger that has begun and seen no event since.
const BEGUN: u32 = 1;

/// Activity of a thread.
#[derive(Clone, Copy)]
struct Status {
    state: u8,
    account: u8,
    syscall: u16,
}

/// The context is two typed pointers: to the read, and to the task, which is null at the end.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
extern "C" fn attach(ctx: *const *const u8) -> i32 {
    // SAFETY: the context of a task iterator, of which both are read as they stand; the first one begins with
    // the file.
    unsafe {
        let meta = core::ptr::read_volatile(ctx);
        let task = core::ptr::read_volatile(ctx.add(1));
        if task.is_null() {
            return 0;
        }
        let file: *const u8 = core::ptr::read_volatile(meta.cast());
        visit(file, Task::at(task));
    }
    0
}

#[inline(always)]
fn visit(file: *const u8, task: Task<Typed>) {
    // Read before the lookup, whether the thread is under creation: otherwise its creator may give it a
    // ledger and wake it in between (seen on 6.18, twice in 30,000 walks beside a storm of new threads).
    let is_new = is_being_made(task);
    // SAFETY: a typed task; the agent resolved the offset of an unsigned int.
    let flags: u32 = unsafe { task.load(&OFFSET_TASK_FLAGS) };
    if flags & PF_KTHREAD != 0 || task.tgid() == (bpf_get_current_pid_tgid() >> 32) as u32 {
        return;
    }
    let process = process_number(task);
    let found = if let Some(ledger) = task.ledger() {
        // SAFETY: a ledger in a map value.
        unsafe { correct(task, ledger) };
        Found::Tracked
    } else {
        // SAFETY: the value is not read.
        if unsafe { TARGETS.get(process) }.is_none() {
            return;
        }
        registers::find();
        match if is_new { Some(Found::Unborn) } else { adopt(task) } {
            Some(found) => found,
            None => return,
        }
    };
    let visit = Visit { process, found: found as u32 };
    // SAFETY: the file is that of this read, and the bytes are on the stack. There is room: the agent reads
    // less at a time than the kernel keeps.
    unsafe {
        bpf_seq_write(file.cast_mut().cast(), (&raw const visit).cast(), size_of::<Visit>() as u32);
    }
}

/// Whether the thread has never been on a CPU: its creator may be tracked and give it a ledger. A kernel may
/// have the fields and not fill them; the reader, which is on a CPU, shows whether it does.
#[inline(always)]
fn is_being_made(task: Task<Typed>) -> bool {
    // SAFETY: a typed task; the agent resolved the offset of an unsigned int.
    let state: u32 = unsafe { task.load(&OFFSET_TASK_STATE) };
    let reader = Task::<Plain>::at(Current::new().pointer());
    state & TASK_NEW != 0 || task.stamps().arrived == 0 && reader.stamps().arrived != 0
}

/// Number of a task's process in the agent's PID namespace; visited tasks are in that or one below it.
#[inline(always)]
fn process_number(task: Task<Typed>) -> u32 {
    let own = origin::pointer(Current::new().address, &OFFSET_TASK_THREAD_PID);
    // SAFETY: a typed task; the agent resolved the offsets of two pointers.
    let pid: u64 = unsafe { load::<Typed, _>(task.follow(&OFFSET_TASK_LEADER), &OFFSET_TASK_THREAD_PID) };
    origin::number(pid, origin::level(own))
}

/// Neither dead nor dying. A thread that has left its CPU for the last time would never give its ledger back.
#[inline(always)]
fn is_alive(task: Task<Typed>) -> bool {
    // SAFETY: a typed task; the agent resolved the offsets of two ints.
    let (state, exit) =
        unsafe { (task.load::<u32>(&OFFSET_TASK_STATE), task.load::<u32>(&OFFSET_TASK_EXIT_STATE)) };
    state & sched::TASK_DEAD == 0 && exit == 0
}

#[inline(always)]
fn is_on_cpu(task: Task<Typed>) -> bool {
    // A kernel for one CPU has no such member; there the agent itself is on the CPU.
    // SAFETY: a typed task; the agent resolved the offset of an int.
    OFFSET_TASK_ON_CPU.load() != 0 && unsafe { task.load::<u8>(&OFFSET_TASK_ON_CPU) } != 0
}

/// Activity of a task, as the switch hook would see it. A task keeps `on_cpu` for a moment after that hook,
/// and one that blocks leaves the queue a moment before: the first looks like running, and the next visit
/// corrects it.
#[inline(always)]
fn status(task: Task<Typed>) -> Status {
    // SAFETY: a typed task; the agent resolved the offsets of an int and two small numbers. `on_rq`, 0 to 2,
    // is an int up to 6.18 and a char on 7.3, as is `on_cpu`: the first byte suffices on little-endian
    // machines, as all here are.
    let (state, is_queued) = unsafe {
        let state: u32 = task.load(&OFFSET_TASK_STATE);
        let on_queue = OFFSET_TASK_ON_RQ.load() != 0 && task.load::<u8>(&OFFSET_TASK_ON_RQ) != 0;
        // From 6.12 on a task that blocks may stay on the queue until its turn comes.
        let delayed = OFFSET_TASK_DELAYED.load() != 0 && task.load::<u8>(&OFFSET_TASK_DELAYED) != 0;
        (state, on_queue && !delayed)
    };
    let runs = |state| Status { state, account: Account::Runq as u8, syscall: NO_SYSCALL };
    if state == 0 || is_queued {
        return runs(if is_on_cpu(task) { RUNNING } else { RUNNABLE });
    }
    let (account, syscall) = blocked::classify(task, state, NO_SYSCALL);
    Status { state: BLOCKED, account, syscall }
}

/// Makes a ledger for a task without one. None if there is nothing to report.
#[inline(always)]
fn adopt(task: Task<Typed>) -> Option<Found> {
    if !is_alive(task) {
        return None;
    }
    let address = task.address() as u64;
    // Without a task in it: the slot may be a stale one, to which a number points already.
    let Some(ledger) = slots::prepare(task.tid(), task.tgid(), 0) else {
        process::misses(task.tgid());
        return Some(Found::Missed);
    };
    // SAFETY: a ledger in a map value, to which no number points before it is published. The BPF helpers have
    // no preconditions; the agent resolved the offset of an unsigned int.
    unsafe {
        let cpu = if OFFSET_TASK_CPU.load() != 0 {
            task.load::<u32>(&OFFSET_TASK_CPU)
        } else {
            bpf_get_smp_processor_id()
        };
        let status = status(task);
        (*ledger).begin(bpf_ktime_get_ns(), status.state, cpu as u16);
        (*ledger).account = status.account;
        (*ledger).syscall = status.syscall;
        quota::left(task, &mut *ledger);
        (*ledger).sequence = BEGUN;
        if OFFSET_TASK_READ_BYTES.load() != 0 {
            pending::begins(ledger, task.load(&OFFSET_TASK_READ_BYTES));
        }
        // Before its first possible event, whose records come later. Handing over is a full barrier as well:
        // a program that finds the slot finds what was written above.
        life::record(Kind::Fork, FORK_ADOPTED | FORK_LATE, &*ledger, address, (*ledger).born_ns, Other::NONE);
        core::ptr::write_volatile(&raw mut (*ledger).task, address);
        task::set_slot((*ledger).tid, (*ledger).slot);
        if is_alive(task) || is_on_cpu(task) {
            correct(task, ledger);
        } else if (*ledger).task == address {
            // Its last switch finished before the slot was published.
            sched::ended(&*ledger, address, bpf_ktime_get_ns());
            return None;
        }
    }
    Some(Found::Adopted)
}

/// Corrects the activity of a thread, as long as it has had no event.
///
/// # Safety
/// The ledger must be the task's own.
#[inline(always)]
unsafe fn correct(task: Task<Typed>, ledger: *mut Ledger) {
    // SAFETY: the caller promised it. Volatile, since a hook may write at the same time: a few instructions
    // lie between the last look at the sequence and the stores. If a hook comes in there, the next event
    // corrects the state.
    unsafe {
        if core::ptr::read_volatile(&raw const (*ledger).sequence) != BEGUN {
            return;
        }
        let status = status(task);
        let (state, account) = (
            core::ptr::read_volatile(&raw const (*ledger).state),
            core::ptr::read_volatile(&raw const (*ledger).account),
        );
        let is_same = state == status.state || (state == LIMITED && status.state == RUNNABLE);
        if is_same && account == status.account {
            return;
        }
        if core::ptr::read_volatile(&raw const (*ledger).sequence) == BEGUN {
            core::ptr::write_volatile(&raw mut (*ledger).account, status.account);
            core::ptr::write_volatile(&raw mut (*ledger).syscall, status.syscall);
            core::ptr::write_volatile(&raw mut (*ledger).state, status.state);
        }
    }
}
