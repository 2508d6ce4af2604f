//! What a program does before it launches: one device, its context, streams, memory and modules.
//!
//! Handles are such that the rest of the stub takes them: a stream is its number with the order to wait for
//! it (asleep, if the context was asked for that), a module's function is a kernel that runs for as long as
//! its first parameter says, and memory of the device is memory of the host. Numbers are those of CUDA's
//! documentation.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};

use crate::device;

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;
const INVALID_DEVICE: c_int = 101;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`, and that of an H100.
const MULTIPROCESSORS: c_int = 16;
const MULTIPROCESSORS_HERE: c_int = 132;
/// `CU_CTX_SCHED_BLOCKING_SYNC`: threads that synchronise sleep.
const BLOCKING_SYNC: u32 = 4;
/// Low bits of a stream's handle: how a thread waits for it.
const SPINS: usize = 5;
const SLEEPS: usize = 6;
/// Streams have the numbers from 1 to this one, again and again.
const STREAMS: usize = 15;
/// The only context, and the only module.
const HANDLE: *mut c_void = ptr::without_provenance_mut(0x10);

static FLAGS: AtomicU32 = AtomicU32::new(0);
static STREAM: AtomicUsize = AtomicUsize::new(0);

/// Writes a result, if there is a place for it.
///
/// # Safety
/// `to` is null or may be written to.
unsafe fn give<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's.
    unsafe { to.write(value) };
    0
}

/// The name of an error.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetErrorName(code: c_int, name: *mut *const c_char) -> c_int {
    let text: &CStr = match code {
        0 => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller's.
    unsafe { give(name, text.as_ptr()) }
}

/// The device of that number: there is number 0.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> c_int {
    if number != 0 {
        return INVALID_DEVICE;
    }
    // SAFETY: the caller's.
    unsafe { give(device, 0) }
}

/// One property is known.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    if attribute != MULTIPROCESSORS {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's.
    unsafe { give(value, MULTIPROCESSORS_HERE) }
}

/// How threads wait for streams that are made from now on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxSetFlags_v2(_: c_int, flags: u32) -> c_int {
    FLAGS.store(flags, Relaxed);
    0
}

/// The device's context.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _: c_int) -> c_int {
    // SAFETY: the caller's.
    unsafe { give(context, HANDLE) }
}

/// Nothing is freed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}

/// Threads need no context here.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetCurrent(_: *mut c_void) -> c_int {
    0
}

/// Makes a stream.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _: u32) -> c_int {
    let number = 1 + STREAM.fetch_add(1, Relaxed) % STREAMS;
    let order = if FLAGS.load(Relaxed) & BLOCKING_SYNC == 0 { SPINS } else { SLEEPS };
    // SAFETY: the caller's.
    unsafe { give(stream, ptr::without_provenance_mut(number << 3 | order)) }
}

/// Nothing is freed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(_: *mut c_void) -> c_int {
    0
}

/// Takes memory of the host.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemAlloc_v2(place: *mut u64, bytes: usize) -> c_int {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(bytes) };
    if memory.is_null() {
        return OUT_OF_MEMORY;
    }
    // SAFETY: the caller's.
    unsafe { give(place, memory.expose_provenance() as u64) }
}

/// Gives it back.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemFree_v2(place: u64) -> c_int {
    // SAFETY: the caller got it from `cuMemAlloc_v2`.
    unsafe { libc::free(ptr::with_exposed_provenance_mut(place as usize)) };
    0
}

/// A module, whatever its text: there is nothing that could run it.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, _: *const c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { give(module, HANDLE) }
}

/// Nothing is freed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(_: *mut c_void) -> c_int {
    0
}

/// A kernel of that name, which runs for as long as its first parameter says, ns.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuModuleGetFunction(
    kernel: *mut *const c_void,
    _: *mut c_void,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's: a C string, and a place for the result.
    unsafe { give(kernel, device::kernel(CStr::from_ptr(name).to_owned(), None)) }
}
