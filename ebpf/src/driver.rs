//! Threads inside functions of graphics processors' drivers: which are, and what their time there is.
//!
//! The probes of `probes/driver.rs` open and close calls; switches, edges and samples ask here. No switch
//! looks before the first call of such a function.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::map, maps::Array};
use guestscope_contract::{
    Account,
    driver::{Does, DriverCall, Instant},
    kept_by,
    ledger::{Ledger, RUNNING},
};

use crate::{
    maps::{BESIDE, OFFSET_REGS_STACK},
    memory::{Memory, Plain},
    registers,
    task::{Current, Task},
};

/// Slot to the open call of its thread. Sized by the agent.
#[map]
static DRIVER_CALLS: Array<DriverCall> = Array::with_max_entries(1, 0);

/// Whether any thread has called such a function.
#[unsafe(no_mangle)]
static mut DRIVER_IS_USED: u32 = 0;

/// Attempts to read a ledger between two switches of its thread.
const ATTEMPTS: u32 = 3;

/// Whether the kernel can tell at all what a thread is inside of.
#[inline(always)]
fn is_used() -> bool {
    // SAFETY: a word of a map value.
    OFFSET_REGS_STACK.load() != 0 && unsafe { core::ptr::read_volatile(&raw const DRIVER_IS_USED) } != 0
}

/// The call of the thread in this slot, if it has one.
#[inline(always)]
fn open_call(slot: u16) -> Option<*mut DriverCall> {
    let call = DRIVER_CALLS.get_ptr_mut(u32::from(slot))?;
    // SAFETY: a map value.
    if unsafe { core::ptr::read_volatile(&raw const (*call).frame) } == 0 { None } else { Some(call) }
}

/// The account of a thread that blocks: what a driver waits in is a wait for the device. What a signal, a
/// page fault, a disk, a socket, or the lock of the address space keeps from running stays as it is.
#[inline(always)]
pub(crate) fn account<M: Memory>(prev: Task<M>, slot: u16, account: u8, syscall: u16) -> u8 {
    let is_of_device =
        account == Account::Lock as u8 || account == Account::Poll as u8 || account == Account::Sleep as u8;
    if !is_used() || !is_of_device || kept_by(syscall) != 0 {
        return account;
    }
    let Some(call) = open_call(slot) else { return account };
    let stack = registers::saved(prev, &OFFSET_REGS_STACK);
    // SAFETY: a map value, which its own thread alone writes; that leaves its CPU.
    unsafe {
        if (*call).is_inside(stack) {
            return Account::Gpu as u8;
        }
        if (*call).is_over(stack) {
            core::ptr::write_volatile(&raw mut (*call).frame, 0);
        }
    }
    account
}

/// Whether the running thread, which has this stack pointer in its program, is inside a call.
#[inline(always)]
pub(crate) fn is_inside(slot: u16, stack: impl Fn() -> u64) -> bool {
    if !is_used() {
        return false;
    }
    // SAFETY: a map value, which the running thread alone writes.
    open_call(slot).is_some_and(|call| unsafe { (*call).is_inside(stack()) })
}

/// The running thread's ledger now. Its time on CPUs is without what a hypervisor took up to its last switch,
/// and without the time since a switch that was not seen.
#[inline(always)]
fn instant(ledger: *const Ledger) -> Instant {
    let mut at = Instant { now_ns: 0, cpu_ns: 0, sequence: 0 };
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        // SAFETY: a ledger in a map value; the sequence is read anew each time.
        unsafe {
            at.sequence = core::ptr::read_volatile(&raw const (*ledger).sequence);
            let since_ns = core::ptr::read_volatile(&raw const (*ledger).since_ns);
            let stolen_ns = core::ptr::read_volatile(&raw const (*ledger).stolen_ns);
            let state = core::ptr::read_volatile(&raw const (*ledger).state);
            let cpu_ns: u64 = core::ptr::read_volatile((&raw const (*ledger).accounts).cast());
            at.now_ns = bpf_ktime_get_ns();
            at.cpu_ns = cpu_ns.wrapping_sub(stolen_ns);
            if state == RUNNING {
                at.cpu_ns = at.cpu_ns.wrapping_add(at.now_ns.wrapping_sub(since_ns));
            }
            if core::ptr::read_volatile(&raw const (*ledger).sequence) == at.sequence {
                break;
            }
        }
        attempt += 1;
    }
    at
}

const _: () = assert!(Account::Cpu as usize == 0);

/// A function begins on the running thread. `frame`: the stack pointer at its return.
#[inline(always)]
pub(crate) fn enter(ledger: *const Ledger, does: Does, frame: u64, bytes: u64) {
    // SAFETY: a ledger in a map value; a word of another one; values of maps that this thread alone writes.
    unsafe {
        let slot = u32::from((*ledger).slot);
        let (Some(call), Some(beside)) = (DRIVER_CALLS.get_ptr_mut(slot), BESIDE.get_ptr_mut(slot)) else {
            return;
        };
        core::ptr::write_volatile(&raw mut DRIVER_IS_USED, 1);
        if (*call).enter(does, frame, instant(ledger)) {
            (*beside).driver.count(does, bytes);
        }
    }
}

/// A function returns on the running thread, whose stack pointer is here.
#[inline(always)]
pub(crate) fn leave(ledger: *const Ledger, stack: u64) {
    // SAFETY: as in `enter`.
    unsafe {
        let slot = (*ledger).slot;
        let (Some(call), Some(beside)) = (open_call(slot), BESIDE.get_ptr_mut(u32::from(slot))) else {
            return;
        };
        (*call).leave(&mut (*beside).driver, stack, instant(ledger));
    }
}

/// An edge of the running thread is about to be handed over: it takes the time of an open call so far.
#[inline(always)]
pub(crate) fn settle(ledger: *const Ledger) {
    if !is_used() {
        return;
    }
    // SAFETY: as in `enter`.
    unsafe {
        let slot = (*ledger).slot;
        let (Some(call), Some(beside)) = (open_call(slot), BESIDE.get_ptr_mut(u32::from(slot))) else {
            return;
        };
        let stack = Current::saved_stack();
        if (*call).is_inside(stack) {
            (*call).settle(&mut (*beside).driver, instant(ledger));
        } else if (*call).is_over(stack) {
            (*call).frame = 0;
        }
    }
}

/// The slot has a new thread, or its thread a new program.
#[inline(always)]
pub(crate) fn forget(slot: u16) {
    if let Some(call) = DRIVER_CALLS.get_ptr_mut(u32::from(slot)) {
        // SAFETY: a map value, which its own thread alone writes; that does not run, or runs this.
        unsafe { core::ptr::write_volatile(&raw mut (*call).frame, 0) };
    }
}

impl Current {
    /// The stack pointer of the running thread's program, as it was on entry to the kernel.
    #[inline(always)]
    pub(crate) fn saved_stack() -> u64 {
        match Self::task() {
            Some(task) => registers::saved(task, &OFFSET_REGS_STACK),
            None => registers::saved(Task::<Plain>::at(Self::new().pointer()), &OFFSET_REGS_STACK),
        }
    }
}
