//! Queries of one device.
//!
//! Defines the functions `nvmlDeviceGet...` that take a handle, answered from `values`. Readings are counted
//! here, and here the stub hangs, dies or loses a device at the reading that `behaviour` names.

use std::{
    ffi::{c_char, c_uint, c_ulonglong},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Code, Device,
    behaviour::{self, Behaviour},
    text,
    values::{self, DEVICES, Values},
};

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_t`.
#[repr(C)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

const CLOCK_SM: c_uint = 1;
const CLOCK_MEMORY: c_uint = 2;
const TEMPERATURE_GPU: c_uint = 0;
/// NVML's bit of the power cap.
const SW_POWER_CAP: c_ulonglong = 0x4;

/// Readings of all devices together.
static READINGS: AtomicU64 = AtomicU64::new(0);
/// Readings of each device, by which its values change.
pub(crate) static READINGS_OF: [AtomicU64; DEVICES.len()] = [const { AtomicU64::new(0) }; DEVICES.len()];

/// Index of a device; an error where no query of it is answered.
pub(crate) fn found(device: Device) -> Result<usize, Code> {
    if !crate::initialised() {
        return Err(Code::Uninitialized);
    }
    let index = device.addr().checked_sub(1).filter(|index| *index < DEVICES.len());
    let index = index.ok_or(Code::InvalidArgument)?;
    if let Behaviour::LostAfter(reading) = behaviour::chosen()
        && index == 1
        && READINGS.load(Ordering::Relaxed) >= reading
    {
        return Err(Code::GpuIsLost);
    }
    if behaviour::chosen() == Behaviour::Unsupported {
        return Err(Code::NotSupported);
    }
    Ok(index)
}

/// Answers a question about a device with a value.
///
/// # Safety
/// `out` is null or points to what may be written.
unsafe fn answer<T>(device: Device, out: *mut T, value: impl FnOnce(usize, Values) -> T) -> Code {
    let index = match found(device) {
        Ok(_) if out.is_null() => return Code::InvalidArgument,
        Ok(index) => index,
        Err(code) => return code,
    };
    let value = value(index, Values::of(index, READINGS_OF[index].load(Ordering::Relaxed)));
    // SAFETY: it is not null, so it may be written, as the caller promises.
    unsafe { out.write(value) };
    Code::Success
}

/// The name of a device.
///
/// # Safety
/// `out` is null or points to `length` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Device, out: *mut c_char, length: c_uint) -> Code {
    match found(device) {
        // SAFETY: the caller's promise is the same.
        Ok(index) => unsafe { text(DEVICES[index].name, out, length) },
        Err(code) => code,
    }
}

/// The identifier of a device.
///
/// # Safety
/// `out` is null or points to `length` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Device, out: *mut c_char, length: c_uint) -> Code {
    match found(device) {
        // SAFETY: the caller's promise is the same.
        Ok(index) => unsafe { text(DEVICES[index].uuid, out, length) },
        Err(code) => code,
    }
}

/// The address of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: *mut PciInfo) -> Code {
    let info = |index: usize, _| {
        let mut info = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: DEVICES[index].pci_bus,
            device: 0,
            pci_device_id: 0x2330_10de,
            pci_subsystem_id: 0,
            bus_id: [0; 32],
        };
        for (to, from) in info.bus_id.iter_mut().zip(DEVICES[index].pci_bus_id.to_bytes()) {
            *to = c_char::from_ne_bytes([*from]);
        }
        info
    };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, info) }
}

/// How a device is attached to the machine.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetVirtualizationMode(device: Device, out: *mut c_uint) -> Code {
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, |index, _| DEVICES[index].virtualization) }
}

/// The memory of a device, in the form that every driver has: reserved memory counts as used.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, out: *mut Memory) -> Code {
    let memory = |index: usize, values: Values| {
        let total = DEVICES[index].memory_bytes;
        let used = values.memory_used_bytes + values::RESERVED_BYTES;
        Memory { total, free: total - used, used }
    };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, memory) }
}

/// The memory of a device, in the form that drivers have since 510.
///
/// # Safety
/// `out` is null or may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut MemoryV2) -> Code {
    if behaviour::chosen() == Behaviour::OldDriver {
        return Code::FunctionNotFound;
    }
    // The caller names the layout: the size of the structure, and the version in the uppermost byte.
    let version = u32::try_from(size_of::<MemoryV2>()).unwrap_or_default() | 2 << 24;
    // SAFETY: it is not null, so it may be read, as the caller promises; the field's bytes are any number.
    if out.is_null() || unsafe { (*out).version } != version {
        return Code::InvalidArgument;
    }
    let memory = |index: usize, values: Values| {
        let (total, used) = (DEVICES[index].memory_bytes, values.memory_used_bytes);
        let reserved = values::RESERVED_BYTES;
        MemoryV2 { version, total, reserved, free: total - used - reserved, used }
    };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, memory) }
}

/// Begins a reading: counts it, misbehaves if its turn has come, and returns how busy the device was.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, out: *mut Utilization) -> Code {
    let count = READINGS.fetch_add(1, Ordering::Relaxed) + 1;
    if matches!(behaviour::chosen(), Behaviour::HangAfter(reading) if count >= reading) {
        behaviour::hang();
    }
    if matches!(behaviour::chosen(), Behaviour::CrashAfter(reading) if count >= reading) {
        behaviour::crash();
    }
    if let Ok(index) = found(device) {
        READINGS_OF[index].fetch_add(1, Ordering::Relaxed);
    }
    let is_idle = behaviour::chosen() == Behaviour::Idle;
    let utilization = |_, values: Values| Utilization {
        gpu: if is_idle { 0 } else { values.utilization_percent },
        memory: values.memory_utilization_percent,
    };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, utilization) }
}

/// The highest clock of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(device: Device, clock: c_uint, out: *mut c_uint) -> Code {
    if clock != CLOCK_SM {
        return Code::NotSupported;
    }
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, |index, _| values::clock_sm_max_mhz(index)) }
}

/// A clock of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(device: Device, clock: c_uint, out: *mut c_uint) -> Code {
    let value: fn(usize, Values) -> c_uint = match clock {
        CLOCK_SM if behaviour::chosen() == Behaviour::Held => |_, values| values.clock_sm_mhz / 2,
        CLOCK_SM => |_, values| values.clock_sm_mhz,
        CLOCK_MEMORY => |_, values| values.clock_memory_mhz,
        _ => return Code::NotSupported,
    };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, value) }
}

/// The power that a device draws.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Device, out: *mut c_uint) -> Code {
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, |_, values| values.power_mw) }
}

/// The temperature of a device.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, out: *mut c_uint) -> Code {
    if sensor != TEMPERATURE_GPU {
        return Code::InvalidArgument;
    }
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, |_, values| values.temperature_celsius) }
}

/// PCIe traffic of a device one way.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieThroughput(device: Device, way: c_uint, out: *mut c_uint) -> Code {
    if way > 1 {
        return Code::InvalidArgument;
    }
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, |_, values| values.pcie_kilobytes_per_s[way as usize]) }
}

/// Why the clocks of a device are not at their highest.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Device,
    out: *mut c_ulonglong,
) -> Code {
    let is_held = behaviour::chosen() == Behaviour::Held;
    let reasons = |_, values: Values| if is_held { SW_POWER_CAP } else { values.throttle_reasons };
    // SAFETY: the caller's promise is the same.
    unsafe { answer(device, out, reasons) }
}
