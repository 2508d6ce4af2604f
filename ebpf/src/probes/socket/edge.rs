//! Edges of family `socket` about a request: like the marker library's, without a number.

use guestscope_contract::{
    KERNEL_INSTANCE, MARKER_ABI_VERSION, Operation, Source, THREAD_AS_BEFORE,
    connection::{WATCH_NAME_BYTES, token},
    ledger::Ledger,
};

use crate::{
    connections::{Connection, OPEN},
    maps::{HAS_REQUESTS, LEDGERS, STAGES, WATCHED},
    probes::phase,
    task::Current,
};

/// Hands over an edge of the running thread, which has this slot: an operation, and behind it the first and
/// third argument of an end; for a request its watch, and since when it waits.
///
/// A function that the verifier checks by itself, so that the object has it once for all programs. It takes
/// numbers alone; pointers would need 5.12.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn socket_edge(slot: u32, what: u32, socket: u64, watch: u32, arrived_ns: u64) -> u64 {
    // Where no requests are wanted, the verifier removes the rest.
    if HAS_REQUESTS.load() == 0 {
        return 0;
    }
    let Some(ledger) = LEDGERS.get_ptr_mut(slot) else { return 1 };
    let Some(stage) = STAGES.get_ptr_mut(slot) else { return 1 };
    // SAFETY: values of maps; ledger and stage are the running thread's.
    unsafe {
        let operation = u64::from(what & 0xff);
        (*stage).operation =
            operation | u64::from(MARKER_ABI_VERSION) << 8 | u64::from(KERNEL_INSTANCE) << 16;
        (*stage).token = token(socket);
        (*stage).arguments = [u64::from(what >> 8 & 0xff), 0, u64::from(what >> 16), arrived_ns];
        if watch != 0
            && let Some(watch) = WATCHED.get_ptr(watch)
        {
            (*stage).arguments[1] = Source::Socket.with_length((*watch).length as u32);
            let (from, to): (*const u64, *mut u64) =
                ((&raw const (*watch).name).cast(), (&raw mut (*stage).name).cast());
            let mut word = 0;
            while word < WATCH_NAME_BYTES / 8 {
                core::ptr::write_volatile(to.add(word), core::ptr::read_volatile(from.add(word)));
                word += 1;
            }
        }
        phase::hand_over(Current::new(), ledger, stage, 0);
    }
    0
}

/// An end, with the library's word for its effect on the thread.
#[inline(always)]
pub(super) unsafe fn tell_end(ledger: *const Ledger, connection: *const Connection, state: u16, third: u64) {
    let first = if state == OPEN { 0 } else { THREAD_AS_BEFORE };
    let what = Operation::End as u32 | (first as u32) << 8 | (third as u32) << 16;
    // SAFETY: the caller's: values of maps.
    unsafe { socket_edge(u32::from((*ledger).slot), what, (*connection).socket, 0, 0) };
}
