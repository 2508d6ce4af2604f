//! Family `cpu`: a thread's activity on a CPU, by samples.
//!
//! Hook: the software event cpu-clock of the observed program's threads, or of all CPUs. Yields counts by
//! activity beside the thread's ledger, which edges carry. The saved syscall number distinguishes page faults
//! from system calls. The address of the code identifies libraries that busy-wait (libgomp), and in those
//! that compute as well (ONNX Runtime) the instructions there tell which of both it was; no stack is walked.
//! It charges no time: the shares of the samples estimate how account `cpu` is composed.

use aya_ebpf::{
    bindings::bpf_pidns_info,
    helpers::generated::{bpf_get_ns_current_pid_tgid, bpf_probe_read_user},
    macros::perf_event,
    programs::PerfEventContext,
};
use guestscope_contract::{Activity, COMPUTES, Counter, PAUSE_WORDS, SPIN_RANGES, has_pause};

use crate::{
    driver, emit,
    maps::{BESIDE, CALLED, IS_ARM64, PID_NAMESPACE_DEVICE, PID_NAMESPACE_INODE, SPIN_CODE, SPUN},
    memory::add,
    process, registers,
    task::Current,
};

#[perf_event]
pub(crate) fn sample(ctx: PerfEventContext) -> u32 {
    emit::count(Counter::Tick);
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    // SAFETY: a ledger in a map value; its slot never changes while the thread lives.
    let slot = unsafe { (*ledger).slot };
    process::sampled(ledger);
    let Some(beside) = BESIDE.get_ptr_mut(u32::from(slot)) else { return 0 };
    let of_program = registers::interrupted_user(&ctx);
    // What a thread does inside a driver is known without samples.
    let stack = || if of_program.is_some() { registers::stack_pointer(&ctx) } else { Current::saved_stack() };
    if driver::is_inside(current, slot, stack) {
        return 0;
    }
    let activity = match of_program {
        Some(address) => in_program(address),
        None if registers::interrupted_beside_the_stack(&ctx, current) => Activity::Irq,
        None => in_kernel(current),
    };
    // SAFETY: the samples are in a map value and the index inside them; this program interrupts the thread,
    // and nobody else writes them.
    unsafe {
        let count = (&raw mut (*beside).samples).cast::<u32>().add(activity as usize);
        *count = (*count).wrapping_add(1);
    }
    0
}

/// Whether the address is code of a busy-waiting library, or of the program. The agent uses process IDs of
/// its own namespace.
#[inline(always)]
fn in_program(address: u64) -> Activity {
    if PID_NAMESPACE_INODE.load() == 0 {
        return Activity::User;
    }
    let mut numbers = bpf_pidns_info { pid: 0, tgid: 0 };
    let device = u64::from(PID_NAMESPACE_DEVICE.load());
    let inode = u64::from(PID_NAMESPACE_INODE.load());
    // SAFETY: the numbers live across the call, and their size is said.
    let failed = unsafe {
        bpf_get_ns_current_pid_tgid(device, inode, &raw mut numbers, size_of::<bpf_pidns_info>() as u32)
    };
    if failed != 0 {
        return Activity::User;
    }
    // SAFETY: the value is read at once; entries are written as a whole, and a torn one would cost one
    // sample.
    let Some(code) = (unsafe { SPIN_CODE.get(numbers.tgid) }) else { return Activity::User };
    let (mut range, mut library) = (0, None);
    while range < SPIN_RANGES {
        let [start, end, number] = code[range];
        if address >= start && address < end {
            library = Some(number);
        }
        range += 1;
    }
    match library {
        Some(library) if library & COMPUTES == 0 || is_beside_a_pause(address) => {
            if let Some(spun) = SPUN.get_ptr_mut(library as u32) {
                // SAFETY: an aligned word of a map value.
                unsafe { add(spun, 1) };
            }
            Activity::Spin
        }
        Some(_) | None => Activity::User,
    }
}

/// Whether the interrupted code waits in a loop. It was just executed, so it can be read here.
#[inline(always)]
fn is_beside_a_pause(address: u64) -> bool {
    let mut code = [0_u64; PAUSE_WORDS];
    let bytes = size_of_val(&code) as u32;
    let from = address.wrapping_sub(u64::from(bytes / 2));
    // SAFETY: the array lives across the call, and its size is said; the BPF helper checks the address.
    let failed = unsafe { bpf_probe_read_user(code.as_mut_ptr().cast(), bytes, from as *const _) };
    failed == 0 && has_pause(&code, IS_ARM64.load() != 0)
}

/// The entry code of exceptions overwrites the number that the entry code of system calls saved.
#[inline(always)]
fn in_kernel(current: Current) -> Activity {
    let call = current.call();
    if call < 0 {
        return Activity::Fault;
    }
    if let Some(called) = CALLED.get_ptr_mut(call as u32) {
        // SAFETY: an aligned word of a map value.
        unsafe { add(called, 1) };
    }
    Activity::Syscall
}
