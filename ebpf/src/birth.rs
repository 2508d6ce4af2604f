//! A thread or process is made by a tracked one: its ledger begins.
//!
//! Yields a fork record before the child can run. It knows no hook and no phase.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
};
use aya_log_ebpf::warn;
use guestscope_ebpf::{
    Kind,
    ledger::{Ledger, RUNNABLE},
};

use crate::{
    memory::Memory,
    probes::{sched, throttle},
    process,
    task::{self, Task},
};

/// This child is made by a tracked thread.
#[inline(always)]
pub(crate) fn seen<C: EbpfContext, M: Memory>(ctx: &C, parent: *mut Ledger, child: Task<M>) {
    let identity = identity(child);
    numbered(ctx, parent, identity, |ledger| throttle::woken(child, ledger));
}

/// The same of one that should have been seen already. Where no slot is free that has been said then.
#[inline(always)]
pub(crate) fn left_out<M: Memory>(parent: *mut Ledger, child: Task<M>) {
    let (tid, tgid, address) = identity(child);
    if let Some(ledger) = task::prepare(tid, tgid, address) {
        // SAFETY: ledgers in map values; the child cannot run before this hook returns.
        unsafe {
            task::set_slot(tid, (*ledger).slot);
            begins(parent, ledger, address, |ledger| throttle::woken(child, ledger));
        }
    }
}

/// Of a new process an older one of its number is forgotten.
#[inline(always)]
fn identity<M: Memory>(child: Task<M>) -> (u32, u32, u64) {
    if child.tid() == child.tgid() {
        process::forget(child.tgid());
    }
    // Read anew: the verifier goes both ways from a number that it has seen compared (151,000 instructions, 117,000 so).
    (child.tid(), child.tgid(), child.address() as u64)
}

/// A thread of these numbers at this address is made by a tracked one; if it is a process, an older one of its number is
/// forgotten already. `waits` is told of the wait that its life begins with.
#[inline(always)]
pub(crate) fn numbered<C: EbpfContext>(
    ctx: &C,
    parent: *mut Ledger,
    (tid, tgid, address): (u32, u32, u64),
    waits: impl FnOnce(&mut Ledger),
) {
    let Some(ledger) = task::create(tid, tgid, address) else {
        // Diagnostics stand in cold programs alone; unless they are asked for, the verifier removes them.
        warn!(ctx, "no free slot for thread {} of process {}", tid, tgid);
        return;
    };
    // SAFETY: ledgers in map values; the child cannot run before this hook returns.
    unsafe { begins(parent, ledger, address, waits) };
}

/// # Safety
/// Both must be ledgers in map values.
#[inline(always)]
unsafe fn begins(parent: *mut Ledger, ledger: *mut Ledger, address: u64, waits: impl FnOnce(&mut Ledger)) {
    // SAFETY: the caller's; the clock has no preconditions.
    unsafe {
        let now_ns = bpf_ktime_get_ns();
        (*ledger).begin(now_ns, RUNNABLE, bpf_get_smp_processor_id() as u16);
        waits(&mut *ledger);
        (*ledger).arrival_offset_ns = (*parent).arrival_offset_ns;
        let other = ((*parent).tid, (*parent).tgid, (*parent).born_ns);
        sched::record(Kind::Fork, 0, &*ledger, address, now_ns, other);
    }
}
