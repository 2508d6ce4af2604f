//! libnvidia_ml_stub.so: the NVML functions that the NVML process calls, with two invented devices, for
//! machines without a GPU.
//!
//! Returns numbers that follow from the count of readings alone, so that tests can predict them, and
//! misbehaves as the environment variable `GUESTSCOPE_NVML_STUB` says (`behaviour`). A reading begins with
//! `nvmlDeviceGetUtilizationRates`, the first query of a reading; what follows belongs to it. Nothing is
//! copied from NVIDIA's headers: names, numbers and layouts of this ABI are those of the functions'
//! documentation.

mod behaviour;
pub mod device;
pub mod errors;
pub mod processes;
mod values;

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    sync::atomic::{AtomicU64, Ordering},
};

use behaviour::Behaviour;
use values::{DRIVER_VERSION, NVML_VERSION};

/// NVML's result codes, as far as the stub gives them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum Code {
    /// Done.
    Success = 0,
    /// A call before `nvmlInit`.
    Uninitialized = 1,
    /// A handle, an index or a pointer that cannot be.
    InvalidArgument = 2,
    /// The device has no such thing.
    NotSupported = 3,
    /// No such device.
    NotFound = 6,
    /// A buffer is too small for its string.
    InsufficientSize = 7,
    /// Nothing happened for as long as the caller waits.
    Timeout = 10,
    /// There is no kernel driver.
    DriverNotLoaded = 9,
    /// This driver has no such function.
    FunctionNotFound = 13,
    /// The device fell off the bus.
    GpuIsLost = 15,
}

/// `nvmlDevice_t`: here the index plus one, never followed as a pointer.
pub type Device = *const c_void;

const INIT_FLAG_NO_GPUS: c_uint = 1;

/// Calls of init without a shutdown.
static INITIALISED: AtomicU64 = AtomicU64::new(0);
fn initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed) > 0
}

/// Writes a string and its NUL.
///
/// # Safety
/// `out` is null or points to `length` bytes that may be written.
unsafe fn text(text: &CStr, out: *mut c_char, length: c_uint) -> Code {
    let bytes = text.to_bytes_with_nul();
    if out.is_null() {
        return Code::InvalidArgument;
    }
    if usize::try_from(length).unwrap_or_default() < bytes.len() {
        return Code::InsufficientSize;
    }
    // SAFETY: the string fits into what may be written, as just compared, and no Rust string overlaps a
    // caller's buffer.
    unsafe { out.copy_from_nonoverlapping(text.as_ptr(), bytes.len()) };
    Code::Success
}

/// Initialises with no flags.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    nvmlInitWithFlags(0)
}

/// Initialises; without the flag that allows it, a machine without devices is an error.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(flags: c_uint) -> Code {
    let behaviour = behaviour::chosen();
    if behaviour == Behaviour::HangInit {
        behaviour::hang();
    }
    if behaviour == Behaviour::CrashInit {
        behaviour::crash();
    }
    if behaviour == Behaviour::NoDriver {
        return Code::DriverNotLoaded;
    }
    if behaviour == Behaviour::NoDevices && flags & INIT_FLAG_NO_GPUS == 0 {
        return Code::NotFound;
    }
    INITIALISED.fetch_add(1, Ordering::Relaxed);
    Code::Success
}

/// Takes one initialisation back.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    let less = |count: u64| count.checked_sub(1);
    match INITIALISED.try_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Code::Success,
        Err(_) => Code::Uninitialized,
    }
}

/// A word for a code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    if code == 0 { c"Success".as_ptr() } else { c"An error of the stub".as_ptr() }
}

/// The driver's version.
///
/// # Safety
/// `out` is null or points to `length` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's promise is the same.
    unsafe { text(DRIVER_VERSION, out, length) }
}

/// The library's version.
///
/// # Safety
/// `out` is null or points to `length` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's promise is the same.
    unsafe { text(NVML_VERSION, out, length) }
}

/// Number of devices.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Code {
    if out.is_null() {
        return Code::InvalidArgument;
    }
    // SAFETY: it is not null, so it may be written, as the caller promises.
    unsafe { out.write(behaviour::devices()) };
    Code::Success
}

/// The handle of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Device) -> Code {
    if out.is_null() || index >= behaviour::devices() {
        return Code::InvalidArgument;
    }
    let handle = std::ptr::without_provenance(usize::try_from(index).unwrap_or_default() + 1);
    // SAFETY: it is not null, so it may be written, as the caller promises.
    unsafe { out.write(handle) };
    Code::Success
}
