//! Calls of functions that are open, and the goroutine that each thread runs.

use aya_ebpf::{macros::map, maps::Array};
use guestscope_contract::{
    SLOTS,
    calls::{self, Calls},
};

/// Open calls of goroutines, then those of threads: see [`calls::carrier_of`]. Sized by the agent.
#[map]
pub(crate) static OPEN: Array<Calls> = Array::with_max_entries(1, 0);

/// The goroutine that a thread runs.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    /// The goroutine; 0 until it is known.
    pub(crate) g: u64,
    /// The element of `OPEN` with its calls; 0 if nothing is kept.
    pub(crate) carrier: u64,
}

pub(crate) const NOTHING: Runs = Runs { g: 0, carrier: 0 };

/// Slot of a thread to what it runs.
#[map]
pub(crate) static RUNS: Array<Runs> = Array::with_max_entries(SLOTS, 0);

/// The thread of this slot is new, or runs a new program.
#[inline(always)]
pub(crate) fn forget(slot: u16) {
    if let Some(calls) = OPEN.get_ptr_mut(calls::carrier_of(slot) as u32) {
        // SAFETY: a value of a map, which its thread alone writes.
        unsafe { (*calls).depth = 0 };
    }
    runs(u32::from(slot), NOTHING);
}

/// Notes what the thread of this slot runs from now on.
#[inline(always)]
pub(crate) fn runs(slot: u32, what: Runs) {
    if let Some(runs) = RUNS.get_ptr_mut(slot) {
        // SAFETY: a value of a map, which only its own thread writes.
        unsafe { core::ptr::write_volatile(runs, what) };
    }
}
