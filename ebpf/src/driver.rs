//! Threads inside functions of graphics processors' drivers: which are, and what their time there is.
//!
//! The probes of `probes/driver.rs` open and close calls; switches, edges and samples ask here. No switch
//! looks before the first call of such a function.

use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, generated::bpf_probe_read_user},
    macros::map,
    maps::Array,
};
use guestscope_contract::{
    Account,
    driver::{Does, DriverCall, Instant, Returning, Where},
    kept_by,
    ledger::{Ledger, RUNNING, Stamps},
};

use crate::{
    maps::{BESIDE, IS_ARM64, OFFSET_MM_PROBES, OFFSET_PROBES_RETURN, OFFSET_REGS_STACK, OFFSET_TASK_MM},
    memory::{Memory, Plain, load},
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

/// Whether any thread has been seen to call such a function, and the kernel can tell what one is inside of.
#[inline(always)]
pub(crate) fn is_used() -> bool {
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
    // SAFETY: a map value, which its own thread alone writes; that leaves its CPU, and is the running one
    // still.
    unsafe {
        match (*call).whereabouts(stack, || returning(prev.address() as u64, (*call).frame)) {
            Where::Inside => return Account::Gpu as u8,
            Where::Left => drops(slot),
            Where::Elsewhere => {}
        }
    }
    account
}

/// What lies where the open call of the running task has its return address, that is, below this frame. Only
/// x86-64 keeps it in memory for sure.
///
/// The kernel puts the same address there for each return probe of a process, that of a page of its own.
/// After a jump out of the call, the calls that follow write over it sooner or later.
#[inline(always)]
fn returning(task: u64, frame: u64) -> Returning {
    if IS_ARM64.load() != 0 || OFFSET_MM_PROBES.load() == 0 || OFFSET_PROBES_RETURN.load() == 0 {
        return Returning::Unknown;
    }
    let (mut found, bytes) = (0_u64, size_of::<u64>() as u32);
    // SAFETY: the agent resolved the offsets of two pointers and of a long; the BPF helpers check the memory,
    // and what cannot be read is 0.
    let (kept, failed) = unsafe {
        let memory: *const u8 = load::<Plain, _>(task as *const u8, &OFFSET_TASK_MM);
        let probes: *const u8 = load::<Plain, _>(memory, &OFFSET_MM_PROBES);
        if memory.is_null() || probes.is_null() {
            return Returning::Unknown;
        }
        let place = frame.wrapping_sub(u64::from(bytes));
        let kept: u64 = load::<Plain, _>(probes, &OFFSET_PROBES_RETURN);
        (kept, bpf_probe_read_user((&raw mut found).cast(), bytes, place as *const _) != 0)
    };
    if failed || kept == 0 {
        Returning::Unknown
    } else if found == kept {
        Returning::Kept
    } else {
        Returning::Overwritten
    }
}

/// Whether the running thread, which has this stack pointer in its program, is inside a call.
#[inline(always)]
pub(crate) fn is_inside(current: Current, slot: u16, stack: impl Fn() -> u64) -> bool {
    if !is_used() {
        return false;
    }
    let Some(call) = open_call(slot) else { return false };
    // SAFETY: a map value, which the running thread alone writes.
    let place = unsafe { (*call).whereabouts(stack(), || returning(current.address, (*call).frame)) };
    matches!(place, Where::Inside)
}

/// The running thread's ledger now. Its time on CPUs is without what a hypervisor took up to its last switch.
/// If its switch to this CPU was not seen, the kernel's stamps tell when that was, as they will to the
/// ledger.
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
            let came_ns = if state == RUNNING {
                Some(since_ns)
            } else {
                (*ledger).unseen_arrival_ns(at.now_ns, Current::stamps())
            };
            if let Some(came_ns) = came_ns {
                at.cpu_ns = at.cpu_ns.wrapping_add(at.now_ns.wrapping_sub(came_ns));
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
pub(crate) fn enter(current: Current, ledger: *const Ledger, does: (Does, u64), frame: u64) {
    // SAFETY: a ledger in a map value; a word of another one; values of maps that this thread alone writes.
    unsafe {
        let slot = u32::from((*ledger).slot);
        let (Some(call), Some(beside)) = (DRIVER_CALLS.get_ptr_mut(slot), BESIDE.get_ptr_mut(slot)) else {
            return;
        };
        core::ptr::write_volatile(&raw mut DRIVER_IS_USED, 1);
        let open = (*call).frame;
        let returning = if open == 0 { Returning::Unknown } else { returning(current.address, open) };
        (*call).enter(&mut (*beside).driver, does, frame, instant(ledger), returning);
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
pub(crate) fn settle(current: Current, ledger: *const Ledger) {
    if !is_used() {
        return;
    }
    // SAFETY: as in `enter`.
    unsafe {
        let slot = (*ledger).slot;
        let (Some(call), Some(beside)) = (open_call(slot), BESIDE.get_ptr_mut(u32::from(slot))) else {
            return;
        };
        let returning = || returning(current.address, (*call).frame);
        match (*call).whereabouts(Current::saved_stack(), returning) {
            Where::Inside => (*call).settle(&mut (*beside).driver, instant(ledger)),
            Where::Left => (*call).drop_unreturned(&mut (*beside).driver),
            Where::Elsewhere => {}
        }
    }
}

/// The thread of this ledger has left its CPU for the last time.
#[inline(always)]
pub(crate) fn ends<M: Memory>(prev: Task<M>, ledger: *const Ledger) {
    if !is_used() {
        return;
    }
    // SAFETY: as in `enter`; the thread will never run again.
    unsafe {
        let slot = (*ledger).slot;
        let (Some(call), Some(beside)) = (open_call(slot), BESIDE.get_ptr_mut(u32::from(slot))) else {
            return;
        };
        let stack = registers::saved(prev, &OFFSET_REGS_STACK);
        (*call).end(&mut (*beside).driver, stack, instant(ledger));
    }
}

/// The thread of this slot is not inside its open call any more, if it has one, and nobody saw it return.
#[inline(always)]
pub(crate) fn drops(slot: u16) {
    let (Some(call), Some(beside)) = (open_call(slot), BESIDE.get_ptr_mut(u32::from(slot))) else { return };
    // SAFETY: map values, which their own thread alone writes; that does not run, or runs this.
    unsafe { (*call).drop_unreturned(&mut (*beside).driver) };
}

/// The slot has a new thread.
#[inline(always)]
pub(crate) fn forget(slot: u16) {
    if let Some(call) = DRIVER_CALLS.get_ptr_mut(u32::from(slot)) {
        // SAFETY: a map value, whose thread is gone.
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

    /// The kernel's stamps of the running thread's stay on this CPU.
    #[inline(always)]
    fn stamps() -> Stamps {
        match Self::task() {
            Some(task) => task.stamps(),
            None => Task::<Plain>::at(Self::new().pointer()).stamps(),
        }
    }
}
