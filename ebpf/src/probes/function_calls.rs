//! Open calls of functions, by the functions' numbers: what families that follow them share.

use aya_ebpf::{EbpfContext, helpers::generated::bpf_get_attach_cookie, macros::map, maps::Array};
use guestscope_contract::{
    EdgeRecord, KERNEL_INSTANCE, MARKER_ABI_VERSION, Operation,
    calls::{self, COOKIE_PLACE, Call, EDGE_CALL_LOST, FUNCTIONS, Found, Function, PLACE, PLACES_IN_PAGE},
};

use crate::{calls::OPEN, maps::HAS_COOKIES, memory::add, probes::phase::Outcome, registers};

/// Number to function. Filled by the agent; 0 is none.
#[map]
pub(crate) static FUNCTIONS_BY_NUMBER: Array<Function> = Array::with_max_entries(FUNCTIONS, 0);

/// Number of a function to 1 if no more of its calls are shown, while open ones end. Apart from the function,
/// whose counts the agent's write would reset.
#[map]
static CLOSING: Array<u32> = Array::with_max_entries(FUNCTIONS, 0);

/// For kernels without cookies: the cookie, by an entry's position in its page, then by an exit's.
#[map]
static FUNCTION_AT: Array<u64> = Array::with_max_entries(2 * PLACES_IN_PAGE, 0);

#[inline(always)]
pub(crate) fn word(operation: u8) -> u64 {
    u64::from(KERNEL_INSTANCE) << 16 | u64::from(MARKER_ABI_VERSION) << 8 | u64::from(operation)
}

/// The cookie of the probe, or that of its position among the exits, or, for `from` 0, among the entries.
#[inline(always)]
pub(crate) fn cookie(ctx: &impl EbpfContext, from: u32) -> u64 {
    if HAS_COOKIES.load() != 0 {
        // SAFETY: the context is this program's own.
        return unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    }
    let at = registers::instruction_pointer(ctx) as u32 & (PLACES_IN_PAGE - 1);
    match FUNCTION_AT.get_ptr(at + from) {
        // SAFETY: a map value.
        Some(cookie) => unsafe { core::ptr::read_volatile(cookie) },
        None => 0,
    }
}

/// Stages the end of the call that ended, or of the outermost call that was left without an end. `inside`
/// says what the thread is inside afterwards; 0 leaves that open.
///
/// # Safety
/// The stage must be the thread's own.
#[inline(always)]
pub(crate) unsafe fn end(stage: *mut EdgeRecord, carrier: u64, found: Found, inside: u64) -> Outcome {
    let (mut place, mut ended, mut flags) = (found.own(), found.lost_calls() as u16, 0);
    if place == 0 {
        // The edge itself ends one of them.
        (place, ended, flags) = (found.lost(), ended.wrapping_sub(1), EDGE_CALL_LOST);
    }
    // SAFETY: the caller's.
    unsafe {
        (*stage).operation = word(Operation::End as u8);
        (*stage).token = calls::token(carrier, place);
        (*stage).arguments = [inside, 0, 0, 0];
    }
    Outcome { operation: Operation::End as u8, ended, flags }
}

/// Whether the probes with this number are about to be removed.
#[inline(always)]
pub(crate) fn is_closing(number: u32) -> bool {
    match CLOSING.get_ptr(number) {
        // SAFETY: a map value.
        Some(closing) => unsafe { core::ptr::read_volatile(closing) != 0 },
        None => true,
    }
}

/// A call of this function was left without a return.
#[inline(always)]
fn lost(number: u32) {
    if let Some(function) = FUNCTIONS_BY_NUMBER.get_ptr_mut(number) {
        // SAFETY: a map value.
        unsafe { add(&raw mut (*function).lost, 1) };
    }
}

/// A call begins on the thread of a slot, or on a goroutine: a [`Found`].
///
/// A function that the verifier checks once by itself, as the next one is: to its callers the result is any
/// number, not one of many cases that it would follow.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn enter(carrier: u64, cookie: u64, at: u64, shown: u64) -> u64 {
    let Some(open) = OPEN.get_ptr_mut(carrier as u32) else { return 0 };
    let is_place = cookie & COOKIE_PLACE != 0;
    let call =
        Call { frame: if is_place { PLACE } else { at }, function: cookie as u32, shown: shown as u32 };
    // SAFETY: a value of a map, which only its own thread writes.
    unsafe { calls::enter(open, at, call, lost).0 }
}

/// The same for a call that ends.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn leave(carrier: u64, cookie: u64, at: u64) -> u64 {
    let Some(open) = OPEN.get_ptr_mut(carrier as u32) else { return 0 };
    // SAFETY: as above.
    unsafe { calls::leave(open, at, cookie as u32, lost).0 }
}
