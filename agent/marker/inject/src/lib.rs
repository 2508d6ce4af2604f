//! Turns the NVTX ranges and ITT tasks that a program already contains into phases. Both interfaces load a
//! tool's library by an environment variable and pass it their tables of functions; this is that library, for
//! both. Yields libguestscope-inject.so, which contains an instance of the marker library; that one meets the
//! agent when this library is loaded. It deliberately allocates nothing and needs no other library: it is
//! loaded into every program that the agent starts.

#![no_std]
#![feature(thread_local)]

mod crossing;
mod edges;
mod gate;
mod itt;
mod kept;
mod nvtx;
mod ranges;
mod text;

use core::ffi::{CStr, c_char};

/// As in the marker's shared library: no panic is left after optimisation (a test looks for one), but the
/// compiler requires a handler.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

unsafe extern "C" {
    // Every C library has it.
    fn getenv(name: *const c_char) -> *const c_char;
}

/// An environment variable, valid as long as the environment is not changed: callers use it at once.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string; the result is null or a C string.
    let value = unsafe { getenv(name.as_ptr()) };
    // SAFETY: not null, so a C string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Whether an agent asked for this: the variable that names this library may outlive it.
fn has_agent() -> bool {
    variable(c"GUESTSCOPE_NOTIFY").is_some()
}
