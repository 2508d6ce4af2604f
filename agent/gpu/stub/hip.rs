//! libhip_stub.so: functions of AMD's HIP that wait or copy, for machines without a GPU. **A stub: nothing in
//! it was seen on a card.**
//!
//! Handles say how long and in which way a function waits: see `waiting.rs`. Exported functions are ordinary
//! ones, as in Debian's libamdhip64.so.5.2.21153: they begin by saving registers, and return. Names are those
//! of the functions' documentation; nothing is copied from AMD's headers.

mod pool;
mod waiting;

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use waiting::Order;

/// Another function of this library that waits.
fn inner(handle: *const c_void) {
    hipStreamSynchronize(handle);
}

/// When the last work of a stream ends, ns: nothing runs here.
fn end_ns(_: usize) -> u64 {
    0
}

/// Copies, then waits for the handle's time; with none it returns at once.
///
/// # Safety
/// Both are memory of so many bytes.
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    waiting::noted(|| {
        // SAFETY: the caller's.
        unsafe { ptr::copy(from, to, bytes) };
        let (order, time) = Order::of(handle);
        if !time.is_zero() {
            waiting::pass(order, time);
        }
    })
}

/// Waits for all work of the device, as `stub_next` says.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipDeviceSynchronize() -> c_int {
    waiting::synchronize(waiting::next())
}

/// Waits for all work of the context, as `stub_next` says.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipCtxSynchronize() -> c_int {
    waiting::synchronize(waiting::next())
}

/// Waits for all work of a stream.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipStreamSynchronize(handle: *const c_void) -> c_int {
    waiting::synchronize(handle)
}

/// The same where each thread has a default stream of its own.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipStreamSynchronize_spt(handle: *const c_void) -> c_int {
    waiting::synchronize(handle)
}

/// Waits for an event.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipEventSynchronize(handle: *const c_void) -> c_int {
    waiting::synchronize(handle)
}

/// Copies to the device.
///
/// # Safety
/// Both are memory of so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn hipMemcpyHtoDAsync(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    handle: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { copy(to, from, bytes, handle) }
}

/// Copies from the device.
///
/// # Safety
/// Both are memory of so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn hipMemcpyDtoHAsync(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    handle: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { copy(to, from, bytes, handle) }
}

/// Copies either way, as its fourth argument says, which is not looked at.
///
/// # Safety
/// Both are memory of so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn hipMemcpy(to: *mut u8, from: *const u8, bytes: usize, _: c_int) -> c_int {
    // SAFETY: the caller's.
    unsafe { copy(to, from, bytes, waiting::next()) }
}

/// Not a function that waits: no probe belongs here.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hipStreamQuery(_: *const c_void) -> c_int {
    0
}
