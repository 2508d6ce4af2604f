//! NVML's answers as messages: the list of devices, and readings of a device.
//!
//! Yields `Device` and `Sample`. A value that the driver does not support, or fails to read this time, is
//! None; only a lost device is an error. It never writes to a device or to the driver's settings. While NVML
//! is open the device stays initialised, which otherwise takes a persistence daemon, and `nvidia-smi
//! --gpu-reset` is refused.

use std::{cell::Cell, cmp::Reverse, collections::BTreeMap, ffi::OsStr, mem};

use guestscope_nvml::{
    Device, DeviceError, MOST_PROCESSES, Memory, PCIE_EVERY, ProcessMemory, ProcessUse, Processes, Sample,
    Virtualization,
};
use nvml_wrapper::{
    EventSet, Nvml,
    bitmasks::{InitFlags, event::EventTypes},
    enum_wrappers::device::{Clock, GpuVirtualizationMode, PcieUtilCounter, TemperatureSensor},
    enums::{device::UsedGpuMemory, event::XidError},
    error::{Bits, NvmlError, nvml_sym, nvml_try},
    struct_wrappers::device::ProcessUtilizationSample,
};

use crate::clock;

/// Longest interval between two of a driver's samples, us.
const LONGEST_INTERVAL_US: u64 = 1_000_000;
/// The shortest: what the first numbers of processes are taken to be of.
const SHORTEST_INTERVAL_US: u64 = 1_000_000 / 6;
const NS_PER_US: u64 = 1_000;
/// What the driver's clock may be ahead, us.
const AHEAD_US: u64 = 5_000_000;

/// Characters kept of a string that came from outside; NVML's own longest is 96 bytes.
const MOST_CHARACTERS: usize = 256;

/// Loads the library and initialises NVML. A machine without a GPU is no failure.
pub(crate) fn open(library: &OsStr) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(library).flags(InitFlags::NO_GPUS).init()
}

/// Versions of the driver and of NVML.
pub(crate) fn versions(nvml: &Nvml) -> (Option<String>, Option<String>) {
    let version = |answer: Result<String, NvmlError>| answer.ok().map(|text| cleaned(&text));
    (version(nvml.sys_driver_version()), version(nvml.sys_nvml_version()))
}

/// The text without control characters and of bounded length: it ends up on terminals, in tables and in
/// names.
pub(crate) fn cleaned(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MOST_CHARACTERS).collect()
}

/// A device that can be read.
pub(crate) struct Gpu<'nvml> {
    index: u32,
    device: nvml_wrapper::Device<'nvml>,
    /// The driver's time of the last numbers of processes, us; 0 before the first.
    told_us: Cell<u64>,
    /// Readings so far.
    readings: Cell<u32>,
}

impl<'nvml> Gpu<'nvml> {
    /// Opens a device and describes it.
    pub(crate) fn open(nvml: &'nvml Nvml, index: u32) -> Result<(Self, Device), NvmlError> {
        let device = nvml.device_by_index(index)?;
        let described = Device {
            index,
            name: text(device.name())?,
            uuid: text(device.uuid())?,
            pci_bus_id: text(device.pci_info().map(|info| info.bus_id))?,
            memory_bytes: unless_lost(memory(&device))?.map(|memory| memory.total_bytes),
            clock_sm_max_mhz: unless_lost(device.max_clock_info(Clock::SM))?,
            virtualization: unless_lost(device.virtualization_mode())?.as_ref().map(virtualization),
        };
        Ok((Self { index, device, told_us: Cell::new(0), readings: Cell::new(0) }, described))
    }

    /// NVML's number of the device.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Reads everything once. An error means that the device is lost and that asking again is useless.
    pub(crate) fn sample(&self) -> Result<Sample, NvmlError> {
        let Self { index, device, .. } = self;
        let before_ns = clock::now_ns();
        let utilization = unless_lost(device.utilization_rates())?;
        let mut sample = Sample {
            device: *index,
            utilization_percent: utilization.as_ref().map(|percent| percent.gpu),
            memory_utilization_percent: utilization.as_ref().map(|percent| percent.memory),
            memory_used_bytes: unless_lost(memory(device))?.map(|memory| memory.used_bytes),
            clock_sm_mhz: unless_lost(device.clock_info(Clock::SM))?,
            clock_memory_mhz: unless_lost(device.clock_info(Clock::Memory))?,
            power_mw: unless_lost(device.power_usage())?,
            temperature_celsius: unless_lost(device.temperature(TemperatureSensor::Gpu))?,
            throttle_reasons: unless_lost(throttle_reasons(device))?,
            ..Sample::default()
        };
        sample.at_ns = clock::now_ns();
        sample.took_ns = sample.at_ns - before_ns;
        // Last, since each takes the driver 20 ms.
        sample.pcie_to_device_bytes_per_s = self.pcie(PcieUtilCounter::Receive)?;
        sample.pcie_from_device_bytes_per_s = self.pcie(PcieUtilCounter::Send)?;
        Ok(sample)
    }

    /// This reading is over.
    pub(crate) fn is_read(&self) {
        self.readings.set(self.readings.get().wrapping_add(1));
    }

    /// Whether it is this device's turn to be asked what takes its driver long: devices take turns.
    fn has_turn(&self) -> bool {
        self.readings.get() % PCIE_EVERY == self.index % PCIE_EVERY
    }

    /// PCIe traffic one way, bytes per second, where it is this device's turn.
    fn pcie(&self, way: PcieUtilCounter) -> Result<Option<u64>, NvmlError> {
        if !self.has_turn() {
            return Ok(None);
        }
        Ok(unless_lost(self.device.pcie_throughput(way))?.map(|kilobytes| u64::from(kilobytes) * 1_000))
    }

    /// What processes used since the last call; none where the driver has no new numbers, or tells none. An
    /// error as above.
    pub(crate) fn processes(&self) -> Result<Option<Processes>, NvmlError> {
        // The driver's times are of the wall clock, which may be set back.
        let latest_us = clock::wall_us() + AHEAD_US;
        let told_us = Some(self.told_us.get()).filter(|told_us| *told_us <= latest_us).unwrap_or(0);
        let Some(samples) = unless_lost(self.device.process_utilization_stats(told_us))? else {
            return Ok(None);
        };
        // NVML fills unused entries with process 0. Of a zombie it gave 37,100 % at a time without meaning
        // (nvtop issue 110).
        let is_sound = |one: &&ProcessUtilizationSample| one.pid != 0 && one.sm_util <= 100;
        let is_new = |one: &&ProcessUtilizationSample| (told_us + 1..=latest_us).contains(&one.timestamp);
        let new = || samples.iter().filter(is_sound).filter(is_new);
        let Some(newest_us) = new().map(|one| one.timestamp).max() else { return Ok(None) };
        self.told_us.set(newest_us);
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for one in new() {
            let (sum, count) = sums.entry(one.pid).or_default();
            (*sum, *count) = (*sum + u64::from(one.sm_util), *count + 1);
        }
        let percent = |(sum, count): (u64, u64)| u32::try_from(sum / count).unwrap_or_default();
        let used = sums.into_iter().map(|(pid, of)| ProcessUse { pid, sm_percent: percent(of) });
        let mut list: Vec<ProcessUse> = used.filter(|one| one.sm_percent > 0).collect();
        list.sort_by_key(|one| Reverse(one.sm_percent));
        list.truncate(MOST_PROCESSES);
        let over_us = if told_us == 0 { SHORTEST_INTERVAL_US } else { newest_us - told_us };
        let over_ns = over_us.min(LONGEST_INTERVAL_US) * NS_PER_US;
        Ok(Some(Processes { at_ns: clock::now_ns(), over_ns, device: self.index, list }))
    }
}

impl Gpu<'_> {
    /// What processes hold of the device's memory, where it is its turn; none where none holds any, or the
    /// driver does not tell. An error as above.
    pub(crate) fn memory(&self) -> Result<Option<Memory>, NvmlError> {
        if !self.has_turn() {
            return Ok(None);
        }
        let lists = [
            self.device.running_compute_processes(),
            self.device.running_graphics_processes(),
            self.device.mps_running_compute_processes(),
        ];
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for list in lists {
            // A process stands once for each part of a device that it uses (MIG).
            let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
            for one in unless_lost(list)?.into_iter().flatten() {
                if let UsedGpuMemory::Used(bytes) = one.used_gpu_memory {
                    let sum = sums.entry(one.pid).or_default();
                    *sum = sum.saturating_add(bytes);
                }
            }
            // One that computes and draws has all of its memory in either list.
            for (pid, bytes) in sums {
                let most = held.entry(pid).or_default();
                *most = bytes.max(*most);
            }
        }
        held.retain(|pid, bytes| *pid != 0 && *bytes > 0);
        let mut list: Vec<ProcessMemory> =
            held.into_iter().map(|(pid, bytes)| ProcessMemory { pid, bytes }).collect();
        list.sort_by_key(|one| Reverse(one.bytes));
        list.truncate(MOST_PROCESSES);
        let told = Memory { at_ns: clock::now_ns(), device: self.index, list };
        Ok((!told.list.is_empty()).then_some(told))
    }
}

/// NVML's number of an error whose own number it does not know.
const UNKNOWN_XID: u64 = 999;

/// Errors of devices, from now on; none where the driver does not report them.
pub(crate) fn errors<'nvml>(nvml: &'nvml Nvml, gpus: &[Gpu<'nvml>]) -> Option<EventSet<'nvml>> {
    let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
    let mut watched = nvml.create_event_set().ok()?;
    for gpu in gpus {
        // A product may have one kind only.
        let supported = gpu.device.supported_event_types().unwrap_or(wanted) & wanted;
        // A set that takes a device no more is used up: what it had is lost with it.
        watched = gpu.device.register_events(supported, watched).ok()?;
    }
    Some(watched)
}

/// The next error, without waiting for one.
pub(crate) fn next_error(watched: &EventSet<'_>) -> Option<DeviceError> {
    let event = watched.wait(0).ok()?;
    let xid = event.event_data.map(|xid| match xid {
        XidError::Value(number) => number,
        XidError::Unknown => UNKNOWN_XID,
    });
    Some(DeviceError { at_ns: clock::now_ns(), device: event.device.index().ok()?, xid })
}

/// An answer, or None where the driver gives none: not supported by this product, not allowed in this
/// container, a function that this version lacks, a passing failure. Only a lost device is an error.
fn unless_lost<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => Err(error),
        Err(_) => Ok(None),
    }
}

fn text(answer: Result<String, NvmlError>) -> Result<Option<String>, NvmlError> {
    Ok(unless_lost(answer)?.map(|text| cleaned(&text)))
}

struct Filled {
    total_bytes: u64,
    used_bytes: u64,
}

/// Memory by the second version of the query, which exists since driver 510, else by the first.
fn memory(device: &nvml_wrapper::Device<'_>) -> Result<Filled, NvmlError> {
    match device.memory_info() {
        Ok(info) => Ok(Filled { total_bytes: info.total, used_bytes: info.used }),
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => first_memory(device),
        Err(error) => Err(error),
    }
}

/// Memory by the first version of the query, which the wrapper leaves out.
fn first_memory(device: &nvml_wrapper::Device<'_>) -> Result<Filled, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: the structure is three plain integers, for which zero is a value; the handle is used while its
    // NVML is borrowed and so initialised, and the structure lives across the call.
    let memory = unsafe {
        let mut memory = mem::zeroed();
        nvml_try(ask(device.handle(), &raw mut memory))?;
        memory
    };
    Ok(Filled { total_bytes: memory.total, used_bytes: memory.used })
}

/// NVML's bit mask unchanged: the wrapper would drop bits that it does not know, and its strict version
/// returns them in the error.
fn throttle_reasons(device: &nvml_wrapper::Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(mask))) => Ok(mask),
        Err(error) => Err(error),
    }
}

fn virtualization(mode: &GpuVirtualizationMode) -> Virtualization {
    match mode {
        GpuVirtualizationMode::Bare => Virtualization::None,
        GpuVirtualizationMode::PassThrough => Virtualization::Passthrough,
        GpuVirtualizationMode::Vgpu => Virtualization::Vgpu,
        GpuVirtualizationMode::HostVgpu => Virtualization::HostVgpu,
        GpuVirtualizationMode::HostVsga => Virtualization::HostVsga,
    }
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::error::NvmlError;

    use super::{cleaned, unless_lost};

    #[test]
    fn strings_lose_control_characters_and_excess() {
        assert_eq!(cleaned("NVIDIA\u{1b}[31m H100\n\t\0 80GB"), "NVIDIA[31m H100 80GB");
        assert_eq!(cleaned(&"ü".repeat(300)), "ü".repeat(256));
        assert_eq!(cleaned(""), "");
    }

    #[test]
    fn only_the_loss_of_a_device_is_an_error() {
        assert!(matches!(unless_lost(Ok(3)), Ok(Some(3))));
        for error in [
            NvmlError::NotSupported,
            NvmlError::NoPermission,
            NvmlError::FailedToLoadSymbol("f".to_owned()),
            NvmlError::UnexpectedVariant(77),
            NvmlError::Unknown,
        ] {
            assert!(matches!(unless_lost::<u32>(Err(error)), Ok(None)));
        }
        assert!(unless_lost::<u32>(Err(NvmlError::GpuLost)).is_err());
        assert!(unless_lost::<u32>(Err(NvmlError::ResetRequired)).is_err());
    }
}
