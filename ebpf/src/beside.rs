//! A thread's data beside its ledger, by its slot: what every switch need not touch.

use guestscope_contract::{Beside, ledger::Ledger};

use crate::{maps::BESIDE, words};

/// Copies the data of the thread in this slot. Each branch writes at once: a value that is known on one
/// branch and not on the other would take the verifier twice through all that follows.
///
/// # Safety
/// `into` must point to memory of a map or a ring.
#[inline(always)]
pub(crate) unsafe fn copy(slot: u16, into: *mut Beside) {
    // SAFETY: map values of whole words, and the caller's promise.
    unsafe {
        match BESIDE.get_ptr(u32::from(slot)) {
            Some(beside) => words::copy(beside, into),
            None => words::clear(into),
        }
    }
}

/// The slot has a new thread.
#[inline(always)]
pub(crate) fn forget(slot: u32) {
    if let Some(beside) = BESIDE.get_ptr_mut(slot) {
        // SAFETY: a whole value of a map; nobody points to this slot yet.
        unsafe { words::clear(beside) };
    }
}

/// The thread, which runs this program, has received over a socket.
#[inline(always)]
pub(crate) fn received(ledger: &mut Ledger) {
    let polled_ns = ledger.take_polled();
    if polled_ns == 0 {
        return;
    }
    if let Some(beside) = BESIDE.get_ptr_mut(u32::from(ledger.slot)) {
        // SAFETY: a map value; nobody else writes this word.
        unsafe { (*beside).poll_net_ns = (*beside).poll_net_ns.wrapping_add(polled_ns) };
    }
}
