//! Errors of devices: sets of events that the driver reports.
//!
//! The stub has one set, and one error at most: that of device 0 at the reading that `behaviour` names.

use std::{
    ffi::{c_uint, c_ulonglong, c_void},
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    Code, Device,
    behaviour::{self, Behaviour},
    device::{READINGS_OF, found},
};

/// `nvmlEventSet_t`: here any address but null, never followed.
type Set = *const c_void;

/// NVML's bit of an error with a number, and the number of a device that fell off its bus.
const XID: c_ulonglong = 8;
const FELL_OFF: c_ulonglong = 79;
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// `nvmlEventData_t`.
#[repr(C)]
pub struct Event {
    device: Device,
    kind: c_ulonglong,
    number: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Makes a set.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(out: *mut Set) -> Code {
    if out.is_null() {
        return Code::InvalidArgument;
    }
    // SAFETY: it is not null, so it may be written, as the caller promises.
    unsafe { out.write(ptr::without_provenance(1)) };
    Code::Success
}

/// Ends a set.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_: Set) -> Code {
    Code::Success
}

/// Kinds of events that a device has.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: Device, out: *mut c_ulonglong) -> Code {
    match found(device) {
        Ok(_) if out.is_null() => Code::InvalidArgument,
        Ok(_) => {
            // SAFETY: it is not null, so it may be written, as the caller promises.
            unsafe { out.write(XID) };
            Code::Success
        }
        Err(code) => code,
    }
}

/// Adds a device to a set.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(device: Device, _: c_ulonglong, _: Set) -> Code {
    found(device).map_or_else(|code| code, |_| Code::Success)
}

/// The next event.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(_: Set, out: *mut Event, _: c_uint) -> Code {
    let Behaviour::XidAfter(reading) = behaviour::chosen() else { return Code::Timeout };
    if READINGS_OF[0].load(Ordering::Relaxed) < reading || IS_TOLD.swap(true, Ordering::Relaxed) {
        return Code::Timeout;
    }
    if out.is_null() {
        return Code::InvalidArgument;
    }
    let device = ptr::without_provenance(1);
    // SAFETY: it is not null, so it may be written, as the caller promises.
    unsafe { out.write(Event { device, kind: XID, number: FELL_OFF, gpu_instance: 0, compute_instance: 0 }) };
    Code::Success
}

/// NVML's number of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: Device, out: *mut c_uint) -> Code {
    match found(device) {
        Ok(_) if out.is_null() => Code::InvalidArgument,
        Ok(index) => {
            // SAFETY: it is not null, so it may be written, as the caller promises.
            unsafe { out.write(c_uint::try_from(index).unwrap_or_default()) };
            Code::Success
        }
        Err(code) => code,
    }
}
