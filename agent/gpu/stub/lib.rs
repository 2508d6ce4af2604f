//! libcuda_stub.so: functions of CUDA's driver that wait or copy, for machines without a GPU.
//!
//! They wait for as long as their caller asks, in the ways that were measured on an H100: spinning; asleep in
//! a futex until a thread of the library, which waits in poll, wakes it; or, as small ones are, both in turn.
//! The handle that CUDA's functions take (a stream, an event) says how: see `waiting.rs`. Exported functions
//! are as in NVIDIA's library (535.261.03): they compare, and jump on through a table, so that no instruction
//! of theirs returns. Names are those of the functions' documentation; nothing is copied from NVIDIA's
//! headers.

mod device;
mod driver;
mod injection;
mod pool;
mod waiting;

use std::{
    arch::naked_asm,
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
};

use waiting::Order;

/// Another function of this library that waits.
fn inner(handle: *const c_void) {
    // SAFETY: the function takes any handle.
    unsafe { cuStreamSynchronize(handle) };
}

/// When the last work of the stream with this number ends, ns of `CLOCK_MONOTONIC`.
fn end_ns(stream: usize) -> u64 {
    device::end_ns(stream)
}

extern "C-unwind" fn synchronize(handle: *const c_void) -> c_int {
    waiting::synchronize(handle)
}

extern "C-unwind" fn synchronize_context() -> c_int {
    waiting::synchronize(waiting::next())
}

/// Copies, then waits for the handle's time; with none it returns at once, as copies of pinned memory do. The
/// device copies for that time as well. `way` is CUPTI's kind of the copy.
fn copy(way: u32, to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    waiting::noted(|| {
        let (order, time) = Order::of(handle);
        let ns = time.as_nanos() as u64;
        let (kind, copy) = (device::COPY, (way, bytes as u64));
        let asked = device::Asked { kind, stream: 0, ns, copy, name: ptr::null() };
        device::call(&asked, || {
            // SAFETY: the caller's, as for CUDA's function; both are memory of the host here.
            unsafe {
                slice::from_raw_parts_mut(to, bytes).copy_from_slice(slice::from_raw_parts(from, bytes));
            };
        });
        if ns > 0 {
            waiting::pass(order, time);
        }
    })
}

extern "C-unwind" fn copy_to(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    copy(1, to, from, bytes, handle)
}

extern "C-unwind" fn copy_from(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    copy(2, to, from, bytes, handle)
}

/// Initialises the library: it loads what CUDA_INJECTION64_PATH names. Fails with the number that
/// STUB_CUDA_INIT has, as where there is no device.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: u32) -> c_int {
    injection::load();
    std::env::var("STUB_CUDA_INIT").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Launches a kernel of `stub_kernel` or of a module on the stream whose number the handle has above its low
/// three bits. Sizes are not looked at; the first parameter of a module's kernel is its time, ns.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    kernel: *const c_void,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    stream: *const c_void,
    parameters: *const *const u64,
    _: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { device::launch(kernel, stream, parameters) };
    0
}

/// Makes a kernel that runs so long.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_kernel(name: *const c_char, ns: u64) -> *const c_void {
    // SAFETY: the caller's.
    device::kernel(unsafe { CStr::from_ptr(name) }.to_owned(), Some(ns))
}

/// From now on this function is called for each call and each piece of work.
#[unsafe(no_mangle)]
pub extern "C" fn stub_hook(hook: extern "C" fn(*const device::Done)) {
    device::tell(hook);
}

/// Launches a graph that runs so long.
#[unsafe(no_mangle)]
pub extern "C" fn stub_launch_graph(ns: u64, stream: *const c_void) -> c_int {
    let (kind, stream) = (device::GRAPH, device::stream(stream));
    device::call(&device::Asked { kind, stream, ns, copy: (0, 0), name: ptr::null() }, || ());
    0
}

/// An exported function that compares, and jumps on to its implementation through a table.
macro_rules! exported {
    ($($table:ident: $name:ident($($argument:ident: $kind:ty),*) = $to:path;)*) => { $(
        #[used]
        static $table: extern "C-unwind" fn($($kind),*) -> c_int = $to;

        /// As in CUDA's driver API, of a device that does not exist.
        ///
        /// # Safety
        /// As for the function that it goes on to.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("cmp dword ptr [rip + {flag}], 1", "je 2f", "jmp qword ptr [rip + {table}]",
                "2:", "jmp qword ptr [rip + {table}]", flag = sym IS_TRACED, table = sym $table);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("adrp x16, {table}", "ldr x16, [x16, :lo12:{table}]", "br x16", table = sym $table);
        }
    )* };
}

/// Never set. NVIDIA's functions look at such a word to let debuggers in.
#[cfg(target_arch = "x86_64")]
#[used]
static IS_TRACED: u32 = 0;

exported! {
    CTX: cuCtxSynchronize() = synchronize_context;
    CTX_2: cuCtxSynchronize_v2() = synchronize_context;
    STREAM: cuStreamSynchronize(handle: *const c_void) = synchronize;
    STREAM_PTSZ: cuStreamSynchronize_ptsz(handle: *const c_void) = synchronize;
    EVENT: cuEventSynchronize(handle: *const c_void) = synchronize;
    TO: cuMemcpyHtoDAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy_to;
    FROM: cuMemcpyDtoHAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy_from;
}

/// Not a function that waits: no probe belongs here.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(_: *const c_void) -> c_int {
    0
}
