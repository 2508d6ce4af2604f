//! Checks that the offsets fit this kernel: reads values at them in a task that knows these values itself.
//!
//! The agent runs it on itself first, if the offsets come from a supplied file: with the file of another
//! kernel every number would be wrong. It writes nothing but the place of the registers.

use aya_ebpf::{
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_ktime_get_ns, generated::bpf_get_smp_processor_id,
    },
    programs::RawTracePointContext,
};
use guestscope_contract::{
    COMM_BYTES,
    fields::{TRIAL_CLOCK, TRIAL_CPU, TRIAL_FILES, TRIAL_IDENTITY, TRIAL_REGISTERS},
};

use crate::{
    file::{self, File},
    maps::{
        OFFSET_CFS_RUNQUEUE, OFFSET_RUNQUEUE_CLOCK, OFFSET_TASK_CFS_RQ, OFFSET_TASK_CPU, OFFSET_TASK_ON_CPU,
    },
    memory::{Checked, load},
    registers,
    task::{self, Current, Task},
};

/// Slack in ns: a queue's clock stands still while its CPU is idle, and both start at slightly different
/// times.
const CLOCK_SLACK_NS: u64 = 5_000_000_000;

/// Arguments: a descriptor of a socket, and one of another file. Returns the misfits as bits, which the
/// library's attribute for such programs would drop.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/trial")]
extern "C" fn trial(ctx: *mut core::ffi::c_void) -> i32 {
    let ctx = RawTracePointContext::new(ctx);
    let (socket, other) = (ctx.arg::<u64>(0) as u32, ctx.arg::<u64>(1) as u32);
    let current = Current::new();
    let task = Task::<Checked>::at(current.pointer());
    let mut wrong = 0;
    if !is_identity_right(task) {
        wrong |= TRIAL_IDENTITY;
    }
    if !registers::find() {
        wrong |= TRIAL_REGISTERS;
    }
    if file::of(task, socket) != File::Socket || file::of(task, other) == File::Socket {
        wrong |= TRIAL_FILES;
    }
    if !is_cpu_right(task) {
        wrong |= TRIAL_CPU;
    }
    if !is_clock_right(task) {
        wrong |= TRIAL_CLOCK;
    }
    wrong.cast_signed()
}

#[inline(always)]
fn is_identity_right(task: Task<Checked>) -> bool {
    let known = bpf_get_current_pid_tgid();
    if (task.tid(), task.tgid()) != (known as u32, (known >> 32) as u32) {
        return false;
    }
    let Ok(name) = bpf_get_current_comm() else { return false };
    let mut found = [0; COMM_BYTES];
    task::comm(task.address() as u64, &mut found);
    u128::from_ne_bytes(name) == u128::from_ne_bytes(found)
}

#[inline(always)]
fn is_cpu_right(task: Task<Checked>) -> bool {
    // The low byte of the second member, which is smaller in new kernels, is enough.
    // SAFETY: a task; the agent resolved the offsets of two ints, or says that there are none. The BPF helper
    // has no preconditions.
    unsafe {
        (OFFSET_TASK_CPU.load() == 0 || task.load::<u32>(&OFFSET_TASK_CPU) == bpf_get_smp_processor_id())
            && (OFFSET_TASK_ON_CPU.load() == 0 || task.load::<u8>(&OFFSET_TASK_ON_CPU) == 1)
    }
}

/// Both clocks run since boot, and the queue's clock is not corrected: a thousandth is ten times that error.
#[inline(always)]
fn is_clock_right(task: Task<Checked>) -> bool {
    if OFFSET_TASK_CFS_RQ.load() == 0 || OFFSET_CFS_RUNQUEUE.load() == 0 || OFFSET_RUNQUEUE_CLOCK.load() == 0
    {
        return true;
    }
    // SAFETY: a task and what it leads to; what cannot be read is 0. The clock has no preconditions.
    let (clock, now) = unsafe {
        let queue = task.follow(&OFFSET_TASK_CFS_RQ);
        let runqueue: *const u8 = load::<Checked, _>(queue, &OFFSET_CFS_RUNQUEUE);
        (load::<Checked, u64>(runqueue, &OFFSET_RUNQUEUE_CLOCK), bpf_ktime_get_ns())
    };
    clock.abs_diff(now) < (now >> 10) + CLOCK_SLACK_NS
}
