//! A tracked thread creates a thread or process: the child's ledger begins.
//!
//! Writes a fork record before the child can run. Independent of hooks and phases.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
};
use aya_log_ebpf::warn;
use guestscope_contract::{
    Kind,
    ledger::{Ledger, RUNNABLE},
};

use crate::{
    life::{self, Other},
    maps::OFFSET_TASK_FLAGS,
    memory::Memory,
    process, quota, slots,
    task::{Numbers, Task},
    workers,
};

/// `PF_IO_WORKER` (5.12 and later): a kernel thread inside the process, which carries out io_uring's work.
/// Before 5.12 the bit marks a thread that runs a virtual machine; such a thread creates no others at that
/// time.
const PF_IO_WORKER: u32 = 0x10;

/// A tracked thread makes this child.
#[inline(always)]
pub(crate) fn of<C: EbpfContext, M: Memory>(ctx: &C, parent: *mut Ledger, child: Task<M>) {
    let mut flags = 0;
    if OFFSET_TASK_FLAGS.load() != 0 {
        // SAFETY: the agent resolved the offset of an unsigned int.
        flags = unsafe { child.load::<u32>(&OFFSET_TASK_FLAGS) };
    }
    if flags & PF_IO_WORKER != 0 {
        workers::born(parent, child);
        return;
    }
    // A child that the iterator has found is tracked already.
    if child.ledger().is_some() {
        return;
    }
    if child.tid() == child.tgid() {
        process::forget(child.tgid());
    }
    // Read anew: the verifier follows both ways from a number that it has seen compared (151,000
    // instructions, 117,000 so).
    let numbers = Numbers { tid: child.tid(), tgid: child.tgid(), address: child.address() as u64 };
    numbered(ctx, parent, numbers, |ledger| quota::woken(child, ledger));
}

/// A tracked thread makes a thread of these numbers at this address; if it is a process, an older one of its
/// number is forgotten already. `waits` gets the ledger, whose life begins with a wait.
#[inline(always)]
pub(crate) fn numbered<C: EbpfContext>(
    ctx: &C,
    parent: *mut Ledger,
    Numbers { tid, tgid, address }: Numbers,
    waits: impl FnOnce(&mut Ledger),
) {
    let Some(ledger) = slots::create(tid, tgid, address) else {
        // Diagnostics only in cold programs; unless requested, the verifier removes them.
        warn!(ctx, "no free slot for thread {} of process {}", tid, tgid);
        return;
    };
    // SAFETY: ledgers in map values; the child cannot run before this hook returns.
    unsafe {
        let now_ns = bpf_ktime_get_ns();
        (*ledger).begin(now_ns, RUNNABLE, bpf_get_smp_processor_id() as u16);
        waits(&mut *ledger);
        (*ledger).arrival_offset_ns = (*parent).arrival_offset_ns;
        let other = Other { tid: (*parent).tid, tgid: (*parent).tgid, born_ns: (*parent).born_ns };
        life::record(Kind::Fork, 0, &*ledger, address, now_ns, other);
    }
}
