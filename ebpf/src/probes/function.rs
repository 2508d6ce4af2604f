//! Calls of functions, and USDT probes: edges that BPF programs make without the marker library.
//!
//! Hooks: uprobes at a function's entry and at each of its exits, or at two USDT probes. Never a uretprobe:
//! it replaces the return address on the stack, which exceptions cannot unwind, so that a program that throws
//! one is killed. The cookie (5.15 and later) identifies the function; before, its position in its page.
//! Yields the edges that the marker would have fired, without request numbers. `calls.rs` keeps a thread's
//! open calls.

use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_ktime_get_ns,
        generated::{bpf_probe_read_kernel, bpf_probe_read_user},
    },
    macros::uprobe,
    programs::ProbeContext,
};
use guestscope_contract::{
    EdgeRecord, NAME_BYTES, Operation,
    calls::{
        self, Argument, ArgumentKind, COOKIE_GO, COOKIE_PLACE, EDGE_CALL_LOST, Found, Function, PLACE,
        PLACES_IN_PAGE, SHOWN_PER_WINDOW, WINDOW_NS,
    },
};

use crate::{
    maps::{IS_ARM64, STAGES},
    memory::add,
    probes::{
        function_calls::{FUNCTIONS_BY_NUMBER, cookie, end, enter, is_closing, leave, word},
        goroutine,
        phase::{self, Outcome},
    },
    registers,
    task::Current,
    thinning, untracked,
};

#[uprobe]
pub(crate) fn function_begin(ctx: ProbeContext) -> u32 {
    phase::keep_own_stack(&ctx);
    let current = Current::new();
    let Some(ledger) = current.ledger() else {
        untracked::mark(false);
        return 0;
    };
    let cookie = cookie(&ctx, 0);
    let Some(function) = FUNCTIONS_BY_NUMBER.get_ptr_mut(cookie as u32) else { return 0 };
    // SAFETY: ledgers, functions and stages are map values; the stage belongs to this thread alone.
    unsafe {
        let slot = (*ledger).slot;
        let Some(stage) = STAGES.get_ptr_mut(u32::from(slot)) else { return 0 };
        add(&raw mut (*function).calls, 1);
        // Within a request that is not handed over none is.
        let is_shown = is_shown(function, cookie as u32) && !thinning::is_unseen(slot);
        let is_mark = (*function).is_mark != 0;
        let (mut carrier, mut at) = (calls::carrier_of(slot), frame(&ctx));
        if cookie & COOKIE_GO != 0 {
            (carrier, at) = goroutine::running(&ctx, ledger, at, true);
        }
        let found = if is_mark {
            Found(0)
        } else if carrier == 0 {
            Found(calls::TOO_DEEP)
        } else {
            Found(enter(carrier, cookie, at, u64::from(is_shown)))
        };
        if found.is_too_deep() {
            add(&raw mut (*function).too_deep, 1);
        }
        let mut outcome = Outcome { operation: Operation::Begin as u8, ended: 0, flags: 0 };
        if is_mark {
            if !is_shown {
                return 0;
            }
            outcome.operation = Operation::Mark as u8;
            begin(stage, function, outcome.operation, &ctx);
            (*stage).token = 0;
        } else if found.own() != 0 {
            begin(stage, function, outcome.operation, &ctx);
            (*stage).token = calls::token(carrier, found.own());
            if found.lost() != 0 {
                (*stage).arguments[3] = calls::token(carrier, found.lost());
                // One lost call is the one that begins now.
                outcome =
                    Outcome { operation: 0, ended: found.lost_calls() as u16 - 1, flags: EDGE_CALL_LOST };
            }
        } else if found.lost() != 0 {
            outcome = end(stage, carrier, found, 0);
        } else {
            return 0;
        }
        phase::hand_over_as(stage, ledger, current, outcome);
    }
    0
}

#[uprobe]
pub(crate) fn function_end(ctx: ProbeContext) -> u32 {
    phase::keep_own_stack(&ctx);
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    let cookie = cookie(&ctx, PLACES_IN_PAGE);
    // SAFETY: as in `function_begin`.
    unsafe {
        let slot = (*ledger).slot;
        let Some(stage) = STAGES.get_ptr_mut(u32::from(slot)) else { return 0 };
        let (mut carrier, mut at, mut inside) = (calls::carrier_of(slot), frame(&ctx), 0);
        let is_go = cookie & COOKIE_GO != 0;
        if is_go {
            (carrier, at) = goroutine::running(&ctx, ledger, at, false);
            if carrier == 0 {
                return 0;
            }
        } else if cookie & COOKIE_PLACE != 0 {
            at = PLACE;
        }
        let found = Found(leave(carrier, cookie, at));
        if is_go {
            inside = goroutine::ended(&ctx, ledger, carrier);
        }
        if found.own() == 0 && found.lost() == 0 {
            return 0;
        }
        let outcome = end(stage, carrier, found, inside);
        phase::hand_over_as(stage, ledger, current, outcome);
    }
    0
}

/// # Safety
/// The stage must be the thread's own, and both whole values.
#[inline(always)]
#[expect(clippy::cast_ptr_alignment, reason = "both names lie at multiples of eight bytes in values of maps")]
unsafe fn begin(stage: *mut EdgeRecord, function: *mut Function, operation: u8, ctx: &impl EbpfContext) {
    // SAFETY: the caller's.
    unsafe {
        (*stage).operation = word(operation);
        let length = u64::from((*function).source) << 32 | u64::from((*function).name_bytes);
        (*stage).arguments = [0, length, argument(&raw const (*function).argument, ctx), 0];
        let (from, to) =
            ((&raw const (*function).name).cast::<u64>(), (&raw mut (*stage).name).cast::<u64>());
        let mut at = 0;
        while at < NAME_BYTES / 8 {
            core::ptr::write_volatile(to.add(at), core::ptr::read_volatile(from.add(at)));
            at += 1;
        }
    }
}

/// End of the caller's frame: the same at the entry, before anything is pushed, and at the exits.
#[inline(always)]
fn frame(ctx: &impl EbpfContext) -> u64 {
    let pointer = registers::stack_pointer(ctx);
    if IS_ARM64.load() != 0 { pointer } else { pointer.wrapping_add(8) }
}

/// Counts the call in its window; returns whether it is shown.
///
/// # Safety
/// A whole value. Others may count at the same time: then a few more are shown, or fewer.
#[inline(always)]
unsafe fn is_shown(function: *mut Function, number: u32) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let now_ns = bpf_ktime_get_ns();
        let begun_ns = core::ptr::read_volatile(&raw const (*function).window_ns);
        if now_ns.wrapping_sub(begun_ns) >= WINDOW_NS {
            core::ptr::write_volatile(&raw mut (*function).window_ns, now_ns);
            core::ptr::write_volatile(&raw mut (*function).in_window, 0);
        }
        add(&raw mut (*function).in_window, 1);
        let in_window = core::ptr::read_volatile(&raw const (*function).in_window);
        let is_shown = in_window <= SHOWN_PER_WINDOW && !is_closing(number);
        if !is_shown {
            add(&raw mut (*function).thinned, 1);
        }
        is_shown
    }
}

/// The number of the request.
///
/// # Safety
/// A whole value.
#[inline(always)]
unsafe fn argument(how: *const Argument, ctx: &impl EbpfContext) -> u64 {
    // SAFETY: the caller's.
    let Argument { kind, register, value, bytes, signed } = unsafe { core::ptr::read_volatile(how) };
    if kind == ArgumentKind::None as u32 {
        return 0;
    }
    let mut number = value;
    if kind != ArgumentKind::Constant as u32 {
        let mut held = 0_u64;
        // SAFETY: the BPF helper checks the memory.
        unsafe {
            let at = ctx.as_ptr().cast::<u8>().add((register & 0x1ff) as usize);
            bpf_probe_read_kernel((&raw mut held).cast(), 8, at.cast());
            number = held;
            if kind == ArgumentKind::Memory as u32 {
                number = 0;
                bpf_probe_read_user((&raw mut number).cast(), 8, held.wrapping_add(value) as *const _);
            }
        }
    }
    let unused = 64_u32.wrapping_sub(bytes.wrapping_mul(8)) & 63;
    let number = number << unused;
    if signed != 0 { ((number as i64) >> unused) as u64 } else { number >> unused }
}
