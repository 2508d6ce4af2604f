//! What a system call says of the wait in it: its object, and whether it had a time limit.
//!
//! Read from the saved registers of the thread whose long wait has ended, so that a short wait costs nothing.

use core::arch::asm;

use aya_ebpf::Global;
use guestscope_contract::{CALLS, CALLS_32, WAIT_LIMITED, ledger::Ledger, limit, waits_in};

use crate::{
    maps::{IS_ARM64, LIMIT_OF, OFFSET_REGS_FIFTH, OFFSET_REGS_FOURTH, OFFSET_REGS_THIRD},
    memory::Memory,
    registers,
    task::Task,
};

/// What a system call was asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Flags of the wait's record.
    pub(crate) flags: u32,
    /// Its time limit, if that is a number of ms.
    pub(crate) limit_ms: u32,
    /// Its first argument.
    pub(crate) argument: u64,
}

/// Nothing is known of the system call.
#[inline(always)]
pub(crate) fn unknown() -> Asked {
    Asked::default()
}

/// The system call of the wait that has ended, whose thread gets a CPU.
#[inline(always)]
pub(crate) fn of<M: Memory>(task: Task<M>, ledger: &Ledger) -> Asked {
    let call = waits_in(ledger.syscall);
    let argument = registers::first_argument(task, call);
    if call >= CALLS_32 {
        return Asked { argument, ..Asked::default() };
    }
    let mut index = u64::from(call);
    // SAFETY: an empty instruction, which keeps the mask below; the index is masked to the table's size.
    let entry = unsafe {
        asm!("{index} = {index}", index = inout(reg) index, options(nomem, nostack));
        core::ptr::read_volatile(LIMIT_OF.as_ptr().add(index as usize & (CALLS - 1)))
    };
    if entry == limit::NONE {
        return Asked { argument, ..Asked::default() };
    }
    let third = register(task, &OFFSET_REGS_THIRD, 2);
    let fourth = register(task, &OFFSET_REGS_FOURTH, 3);
    let fifth = register(task, &OFFSET_REGS_FIFTH, 4);
    let argument_of_limit = limit::argument(entry, [third, fourth, fifth]);
    let flags = if limit::is_set(entry, argument_of_limit) { WAIT_LIMITED } else { 0 };
    let is_number = flags != 0 && entry & limit::MILLISECONDS != 0;
    Asked { flags, limit_ms: if is_number { argument_of_limit as u32 } else { 0 }, argument }
}

/// An argument, by its place on arm64.
#[inline(always)]
fn register<M: Memory>(task: Task<M>, offset: &Global<u32>, place: u32) -> u64 {
    if IS_ARM64.load() != 0 {
        return registers::saved_at(task, place * 8);
    }
    if offset.load() == 0 { 0 } else { registers::saved(task, offset) }
}
