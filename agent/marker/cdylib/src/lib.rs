//! The C ABI of the marker library, as `guestscope.h` documents it: one wrapper per function. Yields
//! libguestscope.so, which needs no other library. It deliberately contains no logic: that is
//! `guestscope_marker::call`, which the Rust API uses as well.

#![no_std]

use guestscope_marker::{HEADER_BYTES, call};

/// The library divides by constants, indexes within masks and unwraps nothing, so no panic is left in it
/// after optimisation (a test looks for one); the compiler wants a handler nevertheless.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Begins a phase.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_begin(name: *const u8, len: usize, request: u64) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::begin(name, len, request) }
}

/// Begins a request.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_request(
    name: *const u8,
    len: usize,
    request: u64,
    scheduled_ns: u64,
) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::request(name, len, request, scheduled_ns) }
}

/// Ends a phase; 0 is the innermost of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn guestscope_end(token: u64) {
    call::end(token);
}

/// Begins the first phase of a request, at the instant at which the request began.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_first(request: u64, name: *const u8, len: usize) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::first(request, name, len) }
}

/// Ends a phase and begins the next one at the same instant.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_next(token: u64, name: *const u8, len: usize) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::next(token, name, len) }
}

/// Ends a phase and the one around it at the same instant.
#[unsafe(no_mangle)]
pub extern "C" fn guestscope_end_both(inner: u64, outer: u64) {
    call::end_both(inner, outer);
}

/// Suspends a phase.
#[unsafe(no_mangle)]
pub extern "C" fn guestscope_leave(token: u64) {
    call::leave(token);
}

/// Resumes a phase on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn guestscope_enter(token: u64) {
    call::enter(token);
}

/// Joins the root of a token to a trace.
///
/// # Safety
/// `trace_id` is null or points to 16 readable bytes, `parent_span_id` is null or points to 8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_context(token: u64, trace_id: *const u8, parent_span_id: *const u8) {
    if trace_id.is_null() || parent_span_id.is_null() {
        return;
    }
    // SAFETY: both are not null, so they point to as many bytes as the caller promised.
    let (trace_id, parent) =
        unsafe { (trace_id.cast::<[u8; 16]>().read(), parent_span_id.cast::<[u8; 8]>().read()) };
    call::context(token, trace_id, parent);
}

/// Makes the phase of a token a child of one of the program's own spans.
///
/// # Safety
/// `trace_id` is null or points to 16 readable bytes, `span_id` is null or points to 8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_parent(token: u64, trace_id: *const u8, span_id: *const u8) {
    if trace_id.is_null() || span_id.is_null() {
        return;
    }
    // SAFETY: both are not null, so they point to as many bytes as the caller promised.
    let (trace_id, span) = unsafe { (trace_id.cast::<[u8; 16]>().read(), span_id.cast::<[u8; 8]>().read()) };
    call::parent(token, trace_id, span);
}

/// Writes a token's `traceparent` header and a NUL; returns its length without the NUL, 0 if nothing was
/// written.
///
/// # Safety
/// `out` is null or points to `cap` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_traceparent(token: u64, out: *mut u8, cap: usize) -> usize {
    if out.is_null() || cap <= HEADER_BYTES {
        return 0;
    }
    let Some(header) = call::traceparent(token) else { return 0 };
    // SAFETY: `out` has room for the header and one byte more, as tested above.
    unsafe {
        out.cast::<[u8; HEADER_BYTES]>().write(header);
        out.add(HEADER_BYTES).write(0);
    }
    HEADER_BYTES
}

/// Marks an instant.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_mark(name: *const u8, len: usize) {
    // SAFETY: the caller's promise is the same.
    unsafe { call::mark(name, len) }
}

/// Begins a phase of a source.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_begin_from(
    source: u32,
    name: *const u8,
    len: usize,
    request: u64,
) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::begin_from(source as u8, name, len, request) }
}

/// Begins a request of a source.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_request_from(
    source: u32,
    name: *const u8,
    len: usize,
    request: u64,
    scheduled_ns: u64,
) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe { call::request_from(source as u8, name, len, request, scheduled_ns) }
}

/// Gives an open phase its final name and a status code.
///
/// # Safety
/// `name` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_rename(token: u64, name: *const u8, len: usize, status: u64) {
    // SAFETY: the caller's promise is the same.
    unsafe { call::rename(token, name, len, status) }
}

/// Sends a message of a source.
///
/// # Safety
/// `text` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestscope_tell(source: u32, text: *const u8, len: usize) {
    // SAFETY: the caller's promise is the same.
    unsafe { call::tell(source as u8, text, len) }
}
