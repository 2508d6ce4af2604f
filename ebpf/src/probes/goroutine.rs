//! Goroutines that are inside probed functions, or have received a request: where that is kept, and their
//! phases when they leave a thread and continue, on any thread.
//!
//! Hooks: uprobes in Go's scheduler, `runtime.schedule`, `runtime.execute` and `runtime.goexit0`. Yields
//! leaves and enters of the outermost phase of a goroutine, and the end of calls that it has left open. Go's
//! compiler keeps the running goroutine in a register (1.17 and later). A goroutine's stack moves as it
//! grows, but frames keep their distance from the stack's high end: places are measured from there.

use aya_ebpf::{
    EbpfContext,
    bindings::BPF_NOEXIST,
    helpers::generated::bpf_probe_read_user,
    macros::{map, uprobe},
    maps::{Array, HashMap, Queue},
    programs::ProbeContext,
};
use guestscope_ebpf::{
    Operation, SLOTS, THREAD_INSIDE, THREAD_OUTSIDE, WITH_INNER,
    calls::{self, COOKIE_EVENT_SHIFT, Found, GO_EXECUTE, GO_SCHEDULE, GOROUTINES, Goroutine},
    connection,
};

use crate::{
    maps::STAGES,
    memory::add,
    probes::{
        function::{self, FUNCTIONS_BY_NUMBER, OPEN},
        phase::{self, Outcome},
        socket,
    },
    registers,
    task::Current,
};

/// Goroutine to the element of `OPEN` with its calls, while there are any.
#[map]
static GOROUTINE_CALLS: HashMap<Goroutine, u32> = HashMap::with_max_entries(GOROUTINES, 0);

/// Free elements, the longest free one at the head.
#[map]
static FREE_GOROUTINES: Queue<u32> = Queue::with_max_entries(GOROUTINES, 0);

/// Element of `OPEN`, less those of threads, to the socket of the last request that the goroutine has
/// received; 0 for none.
#[map]
static CARRIED: Array<u64> = Array::with_max_entries(GOROUTINES, 0);

/// What a thread runs.
#[repr(C)]
#[derive(Clone, Copy)]
struct Runs {
    /// The goroutine; 0 until it is known.
    g: u64,
    /// The element of `OPEN` with its calls; 0 if nothing is kept.
    carrier: u64,
}

/// Slot of a thread to what it runs.
#[map]
static RUNS: Array<Runs> = Array::with_max_entries(SLOTS, 0);

/// Offset of `stack.hi` in `runtime.g`: its second word, in all versions.
const STACK_HIGH: u64 = 8;
/// A place that no frame lies above: distances from the high end are negative.
const ABOVE_ALL: u64 = u64::MAX - 1;

/// Element with the calls of the running goroutine, 0 if none, and the end of the caller's frame.
#[inline(always)]
pub(crate) fn running(
    ctx: &impl EbpfContext,
    (slot, tgid): (u16, u32),
    frame: u64,
    begins: bool,
) -> (u64, u64) {
    let g = registers::goroutine(ctx);
    let mut high = 0_u64;
    // SAFETY: the helper checks the memory; what cannot be read is 0.
    unsafe { bpf_probe_read_user((&raw mut high).cast(), 8, g.wrapping_add(STACK_HIGH) as *const _) };
    let carrier = goroutine(u64::from(tgid), g, u64::from(begins));
    if begins {
        runs(slot, g, carrier);
    }
    (carrier, frame.wrapping_sub(high))
}

/// A call of the running goroutine has ended. Returns the first argument of its edge.
#[inline(always)]
pub(crate) fn ended(ctx: &impl EbpfContext, (slot, tgid): (u16, u32), carrier: u64) -> u64 {
    let g = registers::goroutine(ctx);
    if give_back(u64::from(tgid), g, carrier) == 0 {
        return THREAD_INSIDE;
    }
    runs(slot, g, 0);
    THREAD_OUTSIDE
}

/// The thread of this slot is new, or runs a new program.
#[inline(always)]
pub(crate) fn forget(slot: u32) {
    runs(slot as u16, 0, 0);
}

#[inline(always)]
fn runs(slot: u16, g: u64, carrier: u64) {
    if let Some(runs) = RUNS.get_ptr_mut(u32::from(slot)) {
        // SAFETY: a value of a map, which only its own thread writes.
        unsafe { *runs = Runs { g, carrier } };
    }
}

/// The thread of this slot has received a request over a socket: from here on it belongs to the thread's
/// goroutine, if it runs one.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn goroutine_carries(slot: u32, tgid: u32, socket: u64) -> u64 {
    let Some(runs) = RUNS.get_ptr_mut(slot) else { return 0 };
    // SAFETY: values of maps; the first is the running thread's own.
    unsafe {
        if (*runs).g == 0 {
            return 0;
        }
        let carrier = goroutine(u64::from(tgid), (*runs).g, 1);
        (*runs).carrier = carrier;
        if let Some(carried) = CARRIED.get_ptr_mut((carrier as u32).wrapping_sub(SLOTS)) {
            *carried = socket;
        }
    }
    0
}

#[uprobe]
pub(crate) fn goroutine_moves(ctx: ProbeContext) -> u32 {
    phase::keep_own_stack(&ctx);
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    let cookie = function::cookie(&ctx, 0);
    let event = cookie >> COOKIE_EVENT_SHIFT;
    // SAFETY: ledgers and stages are map values; the stage belongs to this thread alone.
    unsafe {
        let (slot, tgid) = ((*ledger).slot, (*ledger).tgid);
        if event == GO_SCHEDULE
            && let Some(function) = FUNCTIONS_BY_NUMBER.get_ptr_mut(cookie as u32)
        {
            add(&raw mut (*function).calls, 1);
        }
        let Some(runs) = RUNS.get_ptr_mut(u32::from(slot)) else { return 0 };
        let (mut g, mut carrier) = ((*runs).g, (*runs).carrier);
        if event != GO_SCHEDULE {
            g = registers::go_argument(&ctx);
            carrier = goroutine(u64::from(tgid), g, 0);
        }
        *runs = if event == GO_EXECUTE { Runs { g, carrier } } else { Runs { g: 0, carrier: 0 } };
        if carrier == 0 {
            return 0;
        }
        let Some(stage) = STAGES.get_ptr_mut(u32::from(slot)) else { return 0 };
        let mut outcome = Outcome { operation: Operation::Leave as u8, ended: 0, flags: 0 };
        if event == GO_SCHEDULE || event == GO_EXECUTE {
            let token = outermost(u64::from(tgid), carrier);
            if token == 0 {
                if give_back(u64::from(tgid), g, carrier) != 0 {
                    (*runs).carrier = 0;
                }
                return 0;
            }
            let mut first = THREAD_OUTSIDE;
            if event == GO_EXECUTE {
                (outcome.operation, first) = (Operation::Enter as u8, WITH_INNER);
            }
            (*stage).operation = function::word(outcome.operation);
            (*stage).token = token;
            (*stage).arguments = [first, 0, 0, 0];
        } else {
            let found = Found(function::leave(carrier, 0, ABOVE_ALL));
            give_back(u64::from(tgid), g, carrier);
            if found.lost() == 0 {
                return 0;
            }
            outcome = function::end(stage, carrier as u16, found, THREAD_OUTSIDE);
        }
        phase::hand_over_as(stage, ledger, current, outcome);
    }
    0
}

/// Element for the calls of a goroutine; a new one if it has none and shall have one. 0 if there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn goroutine(tgid: u64, g: u64, begins: u64) -> u64 {
    let key = Goroutine { g, tgid };
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
    // SAFETY: values of maps, which nobody else has.
    unsafe {
        (*open).depth = 0;
        if let Some(carried) = CARRIED.get_ptr_mut(carrier.wrapping_sub(SLOTS)) {
            *carried = 0;
        }
    }
    if GOROUTINE_CALLS.insert(key, carrier, u64::from(BPF_NOEXIST)).is_err() {
        let _ = FREE_GOROUTINES.push(carrier, 0);
        return 0;
    }
    u64::from(carrier)
}

/// Frees the element of a goroutine if it has no open call and no request to answer; returns whether it did.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn give_back(tgid: u64, g: u64, carrier: u64) -> u64 {
    let Some(open) = OPEN.get_ptr_mut(carrier as u32) else { return 1 };
    // SAFETY: a value of a map.
    let depth = unsafe { core::ptr::read_volatile(&raw const (*open).depth) };
    if depth != 0 || request(tgid, carrier) != 0 {
        return 0;
    }
    if GOROUTINE_CALLS.remove(Goroutine { g, tgid }).is_ok() {
        let _ = FREE_GOROUTINES.push(carrier as u32, 0);
    }
    1
}

/// Token of the request that a goroutine has received and not answered yet; 0 for none.
#[inline(always)]
fn request(tgid: u64, carrier: u64) -> u64 {
    let Some(carried) = CARRIED.get_ptr((carrier as u32).wrapping_sub(SLOTS)) else { return 0 };
    // SAFETY: a value of a map.
    let socket = unsafe { core::ptr::read_volatile(carried) };
    if socket != 0 && socket::is_unanswered(socket, tgid as u32) { connection::token(socket) } else { 0 }
}

/// Token of the outermost phase of a goroutine: of its request, else of its outermost shown call, see
/// [`calls::outermost`]; 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn outermost(tgid: u64, carrier: u64) -> u64 {
    let request = request(tgid, carrier);
    if request != 0 {
        return request;
    }
    let Some(open) = OPEN.get_ptr_mut(carrier as u32) else { return 0 };
    // SAFETY: a value of a map; the goroutine runs on this thread or on none.
    let place = unsafe { calls::outermost(open) };
    if place == 0 { 0 } else { calls::token(carrier as u16, place) }
}
