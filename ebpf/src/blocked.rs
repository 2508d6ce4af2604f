//! Account of a thread that blocks: one look at its saved registers instead of a hook on every system call.
//!
//! Yields the account, and the system call of the wait with what keeps the thread from running beside it. The
//! caller knows that the thread blocks.

use core::arch::asm;

use guestscope_contract::{
    Account, BY_FREEZER, BY_SIGNAL, BY_TRACER, CALLS, CHECK_FILE, CHECK_POLLED, NO_SYSCALL, RESTARTS, kept,
    last_blocked_in,
};

use crate::{
    driver,
    file::{self, File},
    maps::{
        ACCOUNT_OF, MASK_TASK_FROZEN, MASK_TASK_IOWAIT, OFFSET_TASK_FLAGS, OFFSET_TASK_FROZEN,
        OFFSET_TASK_IOWAIT,
    },
    memory::Memory,
    polled, registers,
    task::Task,
};

/// `__TASK_STOPPED | __TASK_TRACED | TASK_FROZEN`: kept from running by a signal, a debugger or the freezer
/// (6.1 and later; before, freezing by cgroup v1 is seen on the way back from a system call, and looks like
/// any wait elsewhere).
const KEPT: u32 = STOPPED | TRACED | 0x8000;
/// `__TASK_STOPPED`.
const STOPPED: u32 = 0x4;
/// `__TASK_TRACED`.
const TRACED: u32 = 0x8;
/// `TASK_INTERRUPTIBLE`.
const INTERRUPTIBLE: u32 = 0x1;
/// `TASK_UNINTERRUPTIBLE`.
const UNINTERRUPTIBLE: u32 = 0x2;
/// `TASK_FREEZABLE` (6.1 and later): no page fault waits like this; the freezer of cgroup v2 does.
const FREEZABLE: u32 = 0x2000;
/// Frozen, before 6.1 (by cgroup v1, and while the machine is suspended); later no program's task has this
/// flag.
const PF_FROZEN: u32 = 0x1_0000;

/// Account and system call of a blocking task's wait. `before` is the system call of its last block.
#[inline(always)]
pub(crate) fn classify<M: Memory>(prev: Task<M>, state: u32, before: u16) -> (u8, u16) {
    let call = registers::call(prev);
    if state & KEPT != 0 || (call < 0 && is_frozen(prev, state)) {
        // arm64 clears the number before it stops a task, whose syscall may go on afterwards.
        return (Account::Other as u8, kept(call, before, by(state)));
    }
    if call < 0 {
        // The entry code of exceptions and interrupts overwrites the number: a page fault that slept.
        return (Account::Fault as u8, NO_SYSCALL);
    }
    let call = call as u16;
    let entry_of = |call: u16| {
        let mut index = u64::from(call);
        // SAFETY: an empty instruction. Without it the compiler sees that all names lie in the table and
        // drops the mask below, which the verifier needs as a bound. The index is masked to the table's size.
        unsafe {
            asm!("{index} = {index}", index = inout(reg) index, options(nomem, nostack));
            core::ptr::read_volatile(ACCOUNT_OF.as_ptr().add(index as usize & (CALLS - 1)))
        }
    };
    let entry = entry_of(call);
    // SAFETY: the agent resolved the bit field's byte and mask.
    let io_wait = unsafe { prev.load::<u8>(&OFFSET_TASK_IOWAIT) } & MASK_TASK_IOWAIT.load() as u8;
    // io_uring marks its waits so for statistics alone (6.5 and later), whatever it was asked for.
    if io_wait != 0 && entry & !CHECK_POLLED != Account::Poll as u8 {
        return (Account::BlockIo as u8, call);
    }
    if registers::has_returned(prev) {
        if state & INTERRUPTIBLE != 0 && is_frozen(prev, state) {
            return (Account::Other as u8, kept(i32::from(call), before, BY_FREEZER));
        }
        let syscall = if registers::will_restart(prev) { call } else { NO_SYSCALL };
        return (on_the_way_back(prev, state) as u8, syscall);
    }
    if entry & RESTARTS != 0 {
        let before = last_blocked_in(before);
        return (entry_of(before) & !(CHECK_FILE | CHECK_POLLED | RESTARTS), before);
    }
    let account = entry & !(CHECK_FILE | CHECK_POLLED);
    // Where functions of a driver are followed, a thread of its own that polls the device may have nothing to
    // do, and one that has to wait for the device is known.
    if entry & CHECK_POLLED != 0 && !driver::is_used() && polled::is_gpu(prev, call) {
        return (Account::Gpu as u8, call);
    }
    if entry & CHECK_FILE != 0 {
        let fd = registers::first_argument(prev, call) as u32;
        let account = match file::of(prev, fd) {
            File::Socket => Account::Net as u8,
            File::Gpu => Account::Gpu as u8,
            File::Other => account,
        };
        return (account, call);
    }
    (account, call)
}

/// Who keeps a task from running that is in this state.
#[inline(always)]
fn by(state: u32) -> u16 {
    if state & STOPPED != 0 {
        BY_SIGNAL
    } else if state & TRACED != 0 {
        BY_TRACER
    } else {
        BY_FREEZER
    }
}

/// Frozen outside system calls. Before 6.1 only the task itself has a flag for it.
#[inline(always)]
fn is_frozen<M: Memory>(prev: Task<M>, state: u32) -> bool {
    let mask = MASK_TASK_FROZEN.load();
    if state & FREEZABLE != 0 || mask == 0 || state & UNINTERRUPTIBLE != 0 {
        return state & FREEZABLE != 0;
    }
    // SAFETY: the agent resolved the bit field's byte and mask.
    unsafe { prev.load::<u8>(&OFFSET_TASK_FROZEN) & mask as u8 != 0 }
}

/// Account after the return of a system call: a fault on the stack of a signal's frame, or other work, or
/// frozen.
#[inline(always)]
fn on_the_way_back<M: Memory>(prev: Task<M>, state: u32) -> Account {
    // SAFETY: the agent resolved the offset of an unsigned int.
    let flags: u32 = if OFFSET_TASK_FLAGS.load() != 0 { unsafe { prev.load(&OFFSET_TASK_FLAGS) } } else { 0 };
    if state & UNINTERRUPTIBLE != 0 && flags & PF_FROZEN == 0 { Account::Fault } else { Account::Other }
}
