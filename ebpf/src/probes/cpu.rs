//! Family `cpu`: what a thread does while it is on a CPU, by samples.
//!
//! Hook: the software event cpu-clock of the observed program's threads. Yields counts by activity beside the thread's
//! ledger, which edges carry. The saved syscall number tells page faults from system calls, so no stack is walked. It
//! charges no time: shares of samples are an estimate of what lies inside account `cpu`.

use aya_ebpf::{
    EbpfContext as _, bindings::bpf_perf_event_data, macros::perf_event, programs::PerfEventContext,
};
use guestscope_ebpf::{ACTIVITIES, Activity, Samples};

use crate::{
    maps::{OFFSET_REGS_SYSCALL, SAMPLES},
    task::Current,
};

#[perf_event]
pub(crate) fn sample(ctx: PerfEventContext) -> u32 {
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    // SAFETY: a ledger in a map value; its slot never changes while the thread lives.
    let slot = unsafe { (*ledger).slot };
    let Some(samples) = SAMPLES.get_ptr_mut(u32::from(slot)) else { return 0 };
    let activity = if is_user(&ctx) { Activity::User } else { in_kernel(current) };
    // SAFETY: the samples are in a map value and the index inside them; the thread is interrupted by this very program, and
    // nobody else writes them.
    unsafe {
        let count = samples.cast::<u32>().add(activity as usize);
        *count = (*count).wrapping_add(1);
    }
    0
}

/// Whether the interrupted code was the program's.
#[inline(always)]
fn is_user(ctx: &PerfEventContext) -> bool {
    let data: *const bpf_perf_event_data = ctx.as_ptr().cast();
    // SAFETY: the context of a perf event program is this structure.
    unsafe { user_mode(data) }
}

/// The privilege level of the code segment. x86-64 is what is meant where the build names no machine.
#[cfg(not(bpf_target_arch = "aarch64"))]
#[inline(always)]
unsafe fn user_mode(data: *const bpf_perf_event_data) -> bool {
    // SAFETY: the caller's.
    unsafe { (*data).regs.cs & 3 != 0 }
}

/// The exception level.
#[cfg(bpf_target_arch = "aarch64")]
#[inline(always)]
unsafe fn user_mode(data: *const bpf_perf_event_data) -> bool {
    // SAFETY: the caller's.
    unsafe { (*data).regs.pstate & 0xf == 0 }
}

/// The entry code of exceptions overwrites the number that the entry code of system calls saved.
#[inline(always)]
fn in_kernel(current: Current) -> Activity {
    let number = current.saved(&OFFSET_REGS_SYSCALL).cast_signed();
    if number < 0 { Activity::Fault } else { Activity::Syscall }
}

/// Of the thread in this slot.
#[inline(always)]
pub(crate) fn samples(slot: u16) -> Samples {
    match SAMPLES.get_ptr(u32::from(slot)) {
        // SAFETY: the samples are in a map value.
        Some(samples) => unsafe { core::ptr::read_volatile(samples) },
        None => [0; ACTIVITIES],
    }
}

/// A new thread has the slot.
#[inline(always)]
pub(crate) fn forget(slot: u32) {
    if let Some(samples) = SAMPLES.get_ptr_mut(slot) {
        // SAFETY: as above; nobody points to this slot yet.
        unsafe { core::ptr::write_volatile(samples, [0; ACTIVITIES]) };
    }
}
