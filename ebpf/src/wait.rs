//! Submits a record of a long wait, at the switch that ends it.
//!
//! The record has the wait's object and the previous thread on the CPU; the ledger has charged the wait
//! already. A wait whose end reached no tracepoint has no record (`missed` counts those). The agent assigns
//! waits to phases.

use aya_ebpf::helpers::generated::bpf_get_current_comm;
use guestscope_contract::{
    Account, COMM_BYTES, Header, IO_URING_ENTER, Kind, NO_DEVICE, NO_SYSCALL, WaitRecord, edge_mark, kept_by,
    ledger::{Ledger, RUNNING},
    waits_in,
};

use crate::{
    device, emit, held,
    limits::Asked,
    maps::{STAGES, WAIT_THRESHOLD_NS, WAKERS},
    origin, process,
    task::{self, Numbers},
    thinning,
};

/// Whether a time is long enough to be handed over.
#[inline(always)]
pub(crate) fn is_reported(ns: u64) -> bool {
    let threshold_ns = u64::from(WAIT_THRESHOLD_NS.load());
    threshold_ns != 0 && ns >= threshold_ns && ns.cast_signed() >= 0
}

/// Whether the wait that ends now is.
#[inline(always)]
pub(crate) fn is_long(ledger: &Ledger, now_ns: u64) -> bool {
    is_reported(now_ns.wrapping_sub(ledger.left_ns))
}

/// The running thread wakes this ledger's at this time. Its name is kept where the wait is long: a stranger
/// may be gone before the agent could look.
#[inline(always)]
pub(crate) fn note_waker(ledger: &Ledger, now_ns: u64) {
    if is_long(ledger, now_ns)
        && let Some(name) = WAKERS.get_ptr_mut(u32::from(ledger.slot))
    {
        // SAFETY: a map value of this size, of which the BPF helper writes all.
        unsafe { bpf_get_current_comm(name.cast(), COMM_BYTES as u32) };
    }
}

/// Writes the name of the one that ended the block: only that of a long one has been noted.
///
/// # Safety
/// `into` must point to memory of a map or a ring.
#[inline(always)]
unsafe fn name_waker(ledger: &Ledger, into: *mut [u64; COMM_BYTES / 8]) {
    let name = if is_long(ledger, ledger.ready_ns) { WAKERS.get_ptr(u32::from(ledger.slot)) } else { None };
    // SAFETY: as the caller promises; map values of whole words.
    unsafe {
        match name {
            Some(name) => core::ptr::write_volatile(into, core::ptr::read_volatile(name)),
            None => core::ptr::write_volatile(into, [0; COMM_BYTES / 8]),
        }
    }
}

/// The thread of this ledger has got the CPU from the task `before`; `call`: what its system call says of the
/// wait. Both are evaluated only where the wait was long. `left_cpu` is the thread's last CPU.
#[inline(always)]
pub(crate) fn ended(
    ledger: &Ledger,
    before: impl Fn() -> Numbers,
    call: impl Fn() -> Asked,
    left_cpu: u16,
    now_ns: u64,
) {
    if ledger.state != RUNNING || !is_long(ledger, now_ns) || thinning::is_unseen(ledger.slot) {
        return;
    }
    emit::wait(|record: *mut WaitRecord| {
        // A thread that could run all the time needs no waker.
        let was_blocked = ledger.account != Account::Runq as u8;
        let waker = if was_blocked { ledger.waker } else { 0 };
        let (device, flags) = waited_for(ledger);
        let (syscall, kept) =
            if was_blocked { (waits_in(ledger.syscall), kept_by(ledger.syscall)) } else { (NO_SYSCALL, 0) };
        let asked = if syscall == NO_SYSCALL { Asked::default() } else { call() };
        // SAFETY: the record is reserved memory of exactly this size; every field is written.
        unsafe {
            (*record).header =
                Header { kind: Kind::Wait as u32, flags: flags | asked.flags | kept, time_ns: now_ns };
            (*record).born_ns = ledger.born_ns;
            (*record).left_ns = ledger.left_ns;
            (*record).ready_ns = ledger.ready_ns;
            (*record).throttled_ns = ledger.wait_throttled_ns();
            (*record).tid = ledger.tid;
            (*record).tgid = ledger.tgid;
            (*record).waker = waker;
            (*record).replaced_by_tid = ledger.replaced_by_tid;
            let Numbers { tid, tgid, address } = before();
            (*record).ran_before_tid = tid;
            (*record).ran_before_tgid = tgid;
            (*record).left_cpu = left_cpu;
            (*record).cpu = ledger.cpu;
            (*record).syscall = syscall;
            (*record).account = ledger.account;
            (*record).edge = last_edge(ledger.slot);
            (*record).device = device;
            (*record).ns_tid = origin::ns_tid(ledger.task);
            (*record).beside_tid = process::beside(ledger);
            (*record).limit_ms = asked.limit_ms;
            (*record).argument = asked.argument;
            (*record).group = origin::group(ledger.task);
            (*record).ran_before_comm = [0; COMM_BYTES];
            task::comm(address, &mut (*record).ran_before_comm);
            name_waker(ledger, (&raw mut (*record).waker_comm).cast());
        }
    });
}

/// The device of the wait that has ended, and the flags of its record.
#[inline(always)]
fn waited_for(ledger: &Ledger) -> (u32, u32) {
    if ledger.account == Account::Poll as u8 && ledger.syscall == IO_URING_ENTER {
        return device::by_ring(ledger);
    }
    if ledger.account != Account::BlockIo as u8 && ledger.account != Account::Fault as u8 {
        return (NO_DEVICE, 0);
    }
    let (device, flags) = device::by_submission(ledger);
    if device == NO_DEVICE {
        return held::waited_for(ledger);
    }
    (device, flags | held::flag(ledger))
}

/// Mark of the last edge that the thread of this slot has begun, handed over or in progress.
#[inline(always)]
fn last_edge(slot: u16) -> u8 {
    let Some(stage) = STAGES.get_ptr(u32::from(slot)) else { return 0 };
    // SAFETY: a record in a map value; its thread does not run.
    let operation = unsafe { core::ptr::read_volatile(&raw const (*stage).operation) };
    edge_mark((operation >> 32) as u32)
}

/// The slot has a new thread, or the thread a new program: no edge yet.
#[inline(always)]
pub(crate) fn forget_edges(slot: u32) {
    if let Some(stage) = STAGES.get_ptr_mut(slot) {
        // SAFETY: a record in a map value, of the thread that runs this program or of one that does not run.
        unsafe { core::ptr::write_volatile(&raw mut (*stage).operation, 0) };
    }
    thinning::forget_edges(slot);
}
