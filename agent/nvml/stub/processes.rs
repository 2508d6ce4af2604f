//! Which processes use a device: `nvmlDeviceGetProcessUtilization`; and which hold its memory:
//! `nvmlDeviceGetComputeRunningProcesses_v3`.
//!
//! The program that an agent observes is another child of the parent of the NVML process.

use std::{
    ffi::{c_uint, c_ulonglong},
    fs,
    os::unix::process::parent_id,
    process,
    sync::atomic::Ordering,
};

use crate::{
    Code, Device,
    behaviour::{self, Behaviour},
    device::{READINGS_OF, found},
};

/// Between two samples, us.
const PERIOD_US: u64 = 200_000;

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub struct ProcessUtilization {
    pid: c_uint,
    timestamp_us: c_ulonglong,
    sm: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

/// Memory that process 1 holds of each device, and that every other one does.
const HELD_BYTES: [c_ulonglong; 2] = [900 << 20, 100 << 20];

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    memory_bytes: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// What processes hold of a device's memory.
///
/// # Safety
/// `out` is null or points to as many structures as `count` says; `count` is null or may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    out: *mut ProcessInfo,
) -> Code {
    match found(device) {
        Ok(_) if count.is_null() => return Code::InvalidArgument,
        Ok(_) => {}
        Err(code) => return code,
    }
    let held: Vec<c_uint> = used().into_iter().filter(|(_, sm)| *sm <= 100).map(|(pid, _)| pid).collect();
    // SAFETY: it is not null, so it may be read and written, as the caller promises.
    let room = unsafe { count.replace(c_uint::try_from(held.len()).unwrap_or_default()) };
    if held.is_empty() {
        return Code::Success;
    }
    if out.is_null() || usize::try_from(room).unwrap_or_default() < held.len() {
        return Code::InsufficientSize;
    }
    for (place, pid) in held.into_iter().enumerate() {
        let memory_bytes = HELD_BYTES[usize::from(pid != 1)];
        let one = ProcessInfo { pid, memory_bytes, gpu_instance: c_uint::MAX, compute_instance: c_uint::MAX };
        // SAFETY: it is not null, and there is room for all of them, as the caller promises.
        unsafe { out.add(place).write(one) };
    }
    Code::Success
}

/// What processes used of a device since a time.
///
/// # Safety
/// `out` is null or points to as many structures as `count` says; `count` is null or may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Device,
    out: *mut ProcessUtilization,
    count: *mut c_uint,
    last_us: c_ulonglong,
) -> Code {
    let index = match found(device) {
        Ok(_) if count.is_null() => return Code::InvalidArgument,
        Ok(index) => index,
        Err(code) => return code,
    };
    let timestamp_us = READINGS_OF[index].load(Ordering::Relaxed) * PERIOD_US;
    let used = used();
    if used.is_empty() || timestamp_us <= last_us {
        return Code::NotFound;
    }
    // SAFETY: it is not null, so it may be read and written, as the caller promises.
    let room = unsafe { count.replace(c_uint::try_from(used.len()).unwrap_or_default()) };
    if out.is_null() || usize::try_from(room).unwrap_or_default() < used.len() {
        return Code::InsufficientSize;
    }
    for (place, (pid, sm)) in used.into_iter().enumerate() {
        let one = ProcessUtilization { pid, timestamp_us, sm, memory: 20, encoder: 0, decoder: 0 };
        // SAFETY: it is not null, and there is room for all of them, as the caller promises.
        unsafe { out.add(place).write(one) };
    }
    Code::Success
}

/// Process IDs, and what each uses, percent.
fn used() -> Vec<(c_uint, c_uint)> {
    let (is_shared, of_program) = match behaviour::chosen() {
        Behaviour::Shared => (true, 30),
        Behaviour::Held => (false, 30),
        Behaviour::Idle => (false, 1),
        Behaviour::Works
        | Behaviour::HangInit
        | Behaviour::HangAfter(_)
        | Behaviour::CrashInit
        | Behaviour::CrashAfter(_)
        | Behaviour::LostAfter(_)
        | Behaviour::XidAfter(_)
        | Behaviour::NoDevices
        | Behaviour::Unsupported
        | Behaviour::NoDriver
        | Behaviour::OldDriver => return Vec::new(),
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<c_uint>().ok());
    // What a real driver says of a zombie is no number.
    let zombie = is_shared.then_some((2, 37_100));
    let is_beside = |pid: &c_uint| *pid != process::id() && parent_of(*pid) == Some(parent_id());
    pids.filter(is_beside)
        .map(|pid| (pid, of_program))
        .chain(is_shared.then_some((1, 60)))
        .chain(zombie)
        .collect()
}

fn parent_of(pid: c_uint) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}
