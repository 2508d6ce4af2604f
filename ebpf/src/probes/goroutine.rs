//! Goroutines inside probed functions or with a received request: keeps their phases while they leave one
//! thread and continue on another.
//!
//! Hooks: uprobes in Go's scheduler, where a thread drops a goroutine, resumes one, and where one ends.
//! Yields leaves and enters of a goroutine's outermost phase, and the end of calls that it left open. Go's
//! compiler keeps the running goroutine in a register (1.17 and later). A goroutine's stack moves as it
//! grows, but frames keep their distance from its high end: addresses are measured from there.

use aya_ebpf::{
    EbpfContext,
    bindings::BPF_NOEXIST,
    helpers::generated::bpf_probe_read_user,
    macros::{map, uprobe},
    maps::{Array, HashMap, Queue},
    programs::ProbeContext,
};
use guestscope_contract::{
    Operation, THREAD_INSIDE, THREAD_OUTSIDE, WITH_INNER,
    calls::{self, COOKIE_EVENT_SHIFT, Found, GO_EXECUTE, GO_EXIT, GO_SCHEDULE, GOROUTINES, Goroutine},
    connection, is_root_token,
    ledger::Ledger,
};

use crate::{
    calls::{NOTHING, OPEN, RUNS, Runs, runs},
    connections,
    maps::{LEDGERS, STAGES},
    memory::add,
    probes::{
        function_calls::{self, FUNCTIONS_BY_NUMBER},
        phase::{self, Outcome},
    },
    process, registers,
    task::Current,
};

/// Goroutine to the element of `OPEN` with its calls, while there are any.
#[map]
static GOROUTINE_CALLS: HashMap<Goroutine, u32> = HashMap::with_max_entries(GOROUTINES, 0);

/// Free elements, the longest free one at the head.
#[map]
static FREE_GOROUTINES: Queue<u32> = Queue::with_max_entries(GOROUTINES, 0);

/// Element of `OPEN` to the socket of the last request that the goroutine has received; 0 for none. Bit 0 is
/// set if the goroutine was inside a function then, so that the request lies within that one.
#[map]
static CARRIED: Array<u64> = Array::with_max_entries(GOROUTINES + 1, 0);

/// Number of requests that do not follow their goroutine because too many others are followed.
#[map]
static NOT_CARRIED: Array<u64> = Array::with_max_entries(1, 0);

/// Offset of `stack.hi` in `runtime.g`: its second word, in all versions.
const STACK_HIGH: u64 = 8;
/// A place that no frame lies above: distances from the high end are negative.
const ABOVE_ALL: u64 = u64::MAX - 1;
/// Flag in [`CARRIED`].
const WITHIN: u64 = 1;

/// Element with the calls of the running goroutine, 0 if none, and the end of the caller's frame.
///
/// # Safety
/// The ledger must be the running thread's.
#[inline(always)]
pub(crate) unsafe fn running(
    ctx: &impl EbpfContext,
    ledger: *const Ledger,
    frame: u64,
    begins: bool,
) -> (u64, u64) {
    let g = registers::goroutine(ctx);
    let mut high = 0_u64;
    // SAFETY: the BPF helper checks the memory; what cannot be read is 0. A value of a map, which only its
    // own thread writes.
    unsafe {
        bpf_probe_read_user((&raw mut high).cast(), 8, g.wrapping_add(STACK_HIGH) as *const _);
        let carrier = goroutine(process::program(ledger), g, u64::from(begins));
        // A call on another stack of the thread, the scheduler's or that of an iterator (`iter.Pull`), is a
        // part of what the goroutine does.
        if begins
            && let Some(runs) = RUNS.get_ptr_mut(u32::from((*ledger).slot))
            && ((*runs).g == g || (*runs).carrier == 0)
        {
            *runs = Runs { g, carrier };
        }
        (carrier, frame.wrapping_sub(high))
    }
}

/// A call of the running goroutine has ended. Returns the first argument of its edge.
///
/// # Safety
/// The ledger must be the running thread's.
#[inline(always)]
pub(crate) unsafe fn ended(ctx: &impl EbpfContext, ledger: *const Ledger, carrier: u64) -> u64 {
    let g = registers::goroutine(ctx);
    // SAFETY: as above.
    unsafe {
        let program = process::program(ledger);
        let Some(runs) = RUNS.get_ptr_mut(u32::from((*ledger).slot)) else { return THREAD_INSIDE };
        if is_busy(program, carrier) != 0 {
            return THREAD_INSIDE;
        }
        if (*runs).g != g && (*runs).carrier != 0 {
            give_back(program, g, carrier);
            return THREAD_INSIDE;
        }
        // A goroutine with a request is given back as it leaves the thread: until then `has_left` asks for
        // it.
        if carried(carrier) == 0 {
            give_back(program, g, carrier);
            *runs = Runs { g, carrier: 0 };
        }
    }
    THREAD_OUTSIDE
}

/// The thread of this slot has received a request over a socket: from here on it belongs to the thread's
/// goroutine, if it runs one.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn goroutine_carries(slot: u32, socket: u64) -> u64 {
    let Some(runs) = RUNS.get_ptr_mut(slot) else { return 0 };
    let Some(ledger) = LEDGERS.get_ptr(slot) else { return 0 };
    // SAFETY: values of maps; the ledger and what the thread runs are the running thread's.
    unsafe {
        if (*runs).g == 0 {
            return 0;
        }
        let carrier = goroutine(process::program(ledger), (*runs).g, 1);
        (*runs).carrier = carrier;
        if carrier == 0 {
            if let Some(requests) = NOT_CARRIED.get_ptr_mut(0) {
                add(requests, 1);
            }
        } else if let Some(carried) = CARRIED.get_ptr_mut(carrier as u32) {
            *carried = if outermost_call(carrier) == 0 { socket } else { socket | WITHIN };
            connections::carries(socket, carrier);
        }
    }
    0
}

/// Whether the thread of this slot runs a goroutine that was away from it since it received this request or
/// last sent something of it.
#[inline(always)]
pub(crate) fn has_left(slot: u16, socket: u64) -> bool {
    let Some(runs) = RUNS.get_ptr(u32::from(slot)) else { return false };
    // SAFETY: a value of a map, which only the running thread writes.
    unsafe { (*runs).g != 0 && carried((*runs).carrier) & !WITHIN != socket }
}

#[uprobe]
pub(crate) fn goroutine_moves(ctx: ProbeContext) -> u32 {
    phase::keep_own_stack(&ctx);
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    let cookie = function_calls::cookie(&ctx, 0);
    let event = cookie >> COOKIE_EVENT_SHIFT;
    // SAFETY: ledgers and stages are map values; the stage belongs to this thread alone.
    unsafe {
        let (slot, program) = ((*ledger).slot, process::program(ledger));
        if event == GO_SCHEDULE
            && let Some(function) = FUNCTIONS_BY_NUMBER.get_ptr_mut(cookie as u32)
        {
            add(&raw mut (*function).calls, 1);
        }
        let (g, carrier) = moves(&ctx, u32::from(slot), program, event);
        if carrier == 0 {
            return 0;
        }
        let token = outermost(program, carrier);
        let is_request = is_root_token(token);
        let Some(stage) = STAGES.get_ptr_mut(u32::from(slot)) else { return 0 };
        let mut outcome = Outcome { operation: Operation::Leave as u8, ended: 0, flags: 0 };
        let mut first = THREAD_OUTSIDE;
        // Without these probes nothing would take a call off its thread any more.
        let is_last = function_calls::is_closing(cookie as u32) && !is_request;
        if event == GO_EXIT || token == 0 || is_last {
            if is_request {
                connections::leave(carried(carrier) & !WITHIN, program as u32, carrier);
            }
            carry(carrier, 0);
            let found =
                if token == 0 { Found(0) } else { Found(function_calls::leave(carrier, 0, ABOVE_ALL)) };
            if give_back(program, g, carrier) != 0 && event == GO_EXECUTE {
                runs(u32::from(slot), Runs { g, carrier: 0 });
            }
            if token == 0 {
                return 0;
            }
            if !is_request {
                outcome = function_calls::end(stage, carrier, found, THREAD_OUTSIDE);
                phase::hand_over_as(stage, ledger, current, outcome);
                return 0;
            }
        } else if event == GO_EXECUTE {
            (outcome.operation, first) = (Operation::Enter as u8, WITH_INNER);
        }
        (*stage).operation = function_calls::word(outcome.operation);
        (*stage).token = token;
        (*stage).arguments = [first, 0, 0, 0];
        phase::hand_over_as(stage, ledger, current, outcome);
    }
    0
}

/// Sets the goroutine that the thread of this slot runs from now on. Returns the goroutine that moves, and
/// the element with its calls; 0 for that one if nothing is kept or nothing changes.
///
/// # Safety
/// The slot must be the running thread's.
#[inline(always)]
unsafe fn moves(ctx: &impl EbpfContext, slot: u32, program: u64, event: u64) -> (u64, u64) {
    let Some(running) = RUNS.get_ptr(slot) else { return (0, 0) };
    // SAFETY: a value of a map, which only the running thread writes.
    let Runs { g: before, carrier: kept } = unsafe { core::ptr::read_volatile(running) };
    if event == GO_SCHEDULE {
        runs(slot, NOTHING);
        // Another thread may have resumed the goroutine and ended its calls already.
        let is_its = kept != 0 && goroutine(program, before, 0) == kept;
        return (before, if is_its { kept } else { 0 });
    }
    let g = registers::go_argument(ctx);
    if event == GO_EXECUTE && g == before {
        return (g, 0);
    }
    let carrier = goroutine(program, g, 0);
    runs(slot, if event == GO_EXECUTE { Runs { g, carrier } } else { NOTHING });
    (g, carrier)
}

/// Element for the calls of a goroutine; a new one if it has none and shall have one. 0 if there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn goroutine(program: u64, g: u64, begins: u64) -> u64 {
    let key = Goroutine { g, program };
    // SAFETY: the value is read at once.
    if let Some(carrier) = unsafe { GOROUTINE_CALLS.get(key) } {
        return u64::from(*carrier);
    }
    if begins == 0 {
        return 0;
    }
    let carrier = FREE_GOROUTINES.pop().ok().flatten().unwrap_or(0);
    let Some(open) = OPEN.get_ptr_mut(carrier) else { return 0 };
    if carrier == 0 {
        return 0;
    }
    // SAFETY: a value of a map that no other thread uses.
    unsafe { (*open).depth = 0 };
    carry(u64::from(carrier), 0);
    if GOROUTINE_CALLS.insert(key, carrier, u64::from(BPF_NOEXIST)).is_err() {
        let _ = FREE_GOROUTINES.push(carrier, 0);
        return 0;
    }
    u64::from(carrier)
}

/// Frees the element of a goroutine if it has no open call and no request to answer; returns whether it did.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn give_back(program: u64, g: u64, carrier: u64) -> u64 {
    if is_busy(program, carrier) != 0 {
        return 0;
    }
    let key = Goroutine { g, program };
    // SAFETY: the value is read at once.
    let is_its = match unsafe { GOROUTINE_CALLS.get(key) } {
        Some(held) => u64::from(*held) == carrier,
        None => false,
    };
    if is_its && GOROUTINE_CALLS.remove(key).is_ok() {
        let _ = FREE_GOROUTINES.push(carrier as u32, 0);
    }
    1
}

/// Whether a goroutine has an open call, or a request to answer.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn is_busy(program: u64, carrier: u64) -> u64 {
    let Some(open) = OPEN.get_ptr(carrier as u32) else { return 0 };
    // SAFETY: a value of a map.
    if unsafe { core::ptr::read_volatile(&raw const (*open).depth) } != 0 {
        return 1;
    }
    // The outer phase of the request has ended.
    let carried = carried(carrier) & !WITHIN;
    carry(carrier, carried);
    u64::from(carried != 0 && connections::state(carried, program as u32) == connections::OPEN)
}

/// Socket of the last request of a goroutine, and [`WITHIN`].
#[inline(always)]
fn carried(carrier: u64) -> u64 {
    match CARRIED.get_ptr(carrier as u32) {
        // SAFETY: a value of a map.
        Some(carried) => unsafe { core::ptr::read_volatile(carried) },
        None => 0,
    }
}

#[inline(always)]
fn carry(carrier: u64, socket: u64) {
    if let Some(carried) = CARRIED.get_ptr_mut(carrier as u32) {
        // SAFETY: a value of a map, which only the goroutine's thread writes.
        unsafe { core::ptr::write_volatile(carried, socket) };
    }
}

/// Token of the outermost phase of a goroutine; 0 for none. Once a request has an answer it goes along only
/// for calls that are open within it: for the others it is over, unless more is sent.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn outermost(program: u64, carrier: u64) -> u64 {
    let call = outermost_call(carrier);
    let carried = carried(carrier);
    if carried == 0 || carried & WITHIN != 0 && call != 0 {
        return call;
    }
    let state = connections::state(carried & !WITHIN, program as u32);
    let is_open = state == connections::OPEN || state == connections::ANSWERED && call != 0;
    if is_open { connection::token(carried) } else { call }
}

/// Token of the outermost shown call of a goroutine, see [`calls::outermost`]; 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn outermost_call(carrier: u64) -> u64 {
    let Some(open) = OPEN.get_ptr_mut(carrier as u32) else { return 0 };
    // SAFETY: a value of a map; the goroutine runs on this thread or on none.
    let place = unsafe { calls::outermost(open) };
    if place == 0 { 0 } else { calls::token(carrier, place) }
}
