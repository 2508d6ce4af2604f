//! Family `driver`: functions of graphics processors' drivers that wait or copy.
//!
//! Hooks: a uprobe at the entry of each such function, and a uretprobe at its return. Exported functions of
//! NVIDIA's library are 30 bytes that jump on through a table (535.261.03), so that no instruction of theirs
//! returns, and only a return probe sees the end. See decision 075 for what that may cost a program.
//! Yields sums beside the thread's ledger, and decides that a wait inside is one for the device.

use aya_ebpf::{macros::uprobe, programs::ProbeContext};
use guestscope_contract::driver::Does;

use crate::{driver, maps::IS_ARM64, probes::phase, registers, task::Current};

#[uprobe]
pub(crate) fn driver_waits(ctx: ProbeContext) -> u32 {
    enters(&ctx, Does::Wait, 0)
}

#[uprobe]
pub(crate) fn driver_copies_in(ctx: ProbeContext) -> u32 {
    let bytes = registers::argument::<2>(&ctx);
    enters(&ctx, Does::CopyIn, bytes)
}

#[uprobe]
pub(crate) fn driver_copies_out(ctx: ProbeContext) -> u32 {
    let bytes = registers::argument::<2>(&ctx);
    enters(&ctx, Does::CopyOut, bytes)
}

#[uprobe]
pub(crate) fn driver_copies(ctx: ProbeContext) -> u32 {
    enters(&ctx, Does::Copy, 0)
}

#[uprobe]
pub(crate) fn driver_returns(ctx: ProbeContext) -> u32 {
    phase::keep_own_stack(&ctx);
    if let Some(ledger) = Current::new().ledger() {
        driver::leave(ledger, registers::stack_pointer(&ctx));
    }
    0
}

#[inline(always)]
fn enters(ctx: &ProbeContext, does: Does, bytes: u64) -> u32 {
    phase::keep_own_stack(ctx);
    let current = Current::new();
    if let Some(ledger) = current.ledger() {
        let pointer = registers::stack_pointer(ctx);
        // x86-64 pushes the return address on the stack, arm64 keeps it in a register.
        let frame = if IS_ARM64.load() != 0 { pointer } else { pointer.wrapping_add(8) };
        driver::enter(current, ledger, (does, bytes), frame);
    }
    0
}
