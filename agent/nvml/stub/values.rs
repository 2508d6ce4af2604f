//! The two invented devices and their readings.
//!
//! Yields [`DEVICES`] and [`Values`]: every number follows from the device and from its count of readings, so
//! that a test can predict the next line. Time is not used.

use std::ffi::CStr;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(crate) const DRIVER_VERSION: &CStr = c"550.54.15";
pub(crate) const NVML_VERSION: &CStr = c"12.550.54.15";
/// Memory that the driver reserves on each device.
pub(crate) const RESERVED_BYTES: u64 = 256 * MIB;

/// Constant facts about a device.
pub(crate) struct Fixed {
    pub(crate) name: &'static CStr,
    pub(crate) uuid: &'static CStr,
    pub(crate) pci_bus: u32,
    pub(crate) pci_bus_id: &'static CStr,
    pub(crate) memory_bytes: u64,
    /// NVML's number of the mode.
    pub(crate) virtualization: u32,
}

const PASSTHROUGH: u32 = 1;
const VGPU: u32 = 2;

pub(crate) const DEVICES: [Fixed; 2] = [
    Fixed {
        name: c"Stub GPU 0",
        uuid: c"GPU-00000000-0000-4000-8000-000000000000",
        pci_bus: 0x3b,
        pci_bus_id: c"00000000:3B:00.0",
        memory_bytes: 16 * GIB,
        virtualization: PASSTHROUGH,
    },
    Fixed {
        name: c"Stub GPU 1",
        uuid: c"GPU-00000000-0000-4000-8000-000000000001",
        pci_bus: 0x5e,
        pci_bus_id: c"00000000:5E:00.0",
        memory_bytes: 8 * GIB,
        virtualization: VGPU,
    },
];

/// Highest clock of the multiprocessors of device `index`, MHz.
pub(crate) fn clock_sm_max_mhz(index: usize) -> u32 {
    1_500 + 100 * u32::try_from(index).unwrap_or_default()
}

/// Values of a device at one reading.
pub(crate) struct Values {
    pub(crate) utilization_percent: u32,
    pub(crate) memory_utilization_percent: u32,
    pub(crate) memory_used_bytes: u64,
    pub(crate) clock_sm_mhz: u32,
    pub(crate) clock_memory_mhz: u32,
    pub(crate) power_mw: u32,
    pub(crate) temperature_celsius: u32,
    /// PCIe traffic from the device and to it, in the order of NVML's counters, KB/s.
    pub(crate) pcie_kilobytes_per_s: [u32; 2],
    pub(crate) throttle_reasons: u64,
}

/// Idle; free; limited by the power cap; hot, with a bit that no documentation names.
const THROTTLE_CYCLE: [u64; 4] = [0x1, 0x0, 0x4, 0x8 | 0x20 | 1 << 40];

impl Values {
    /// The values of device `index` at its reading number `reading`, which counts from 1; 0 is before the
    /// first.
    pub(crate) fn of(index: usize, reading: u64) -> Self {
        let device = u32::try_from(index).unwrap_or_default();
        // It starts again after 20, so every sum stays what its name allows.
        let step = reading % 20;
        let small = u32::try_from(step).unwrap_or_default();
        Self {
            utilization_percent: 40 + 30 * device + small,
            memory_utilization_percent: 10 + 10 * device + small,
            memory_used_bytes: u64::from(device + 1) * GIB + step * MIB,
            clock_sm_mhz: 1_400 + 100 * device + small,
            clock_memory_mhz: 2_600 + 10 * device,
            power_mw: 300_000 + 50_000 * device + 1_000 * small,
            temperature_celsius: 50 + 10 * device + small,
            pcie_kilobytes_per_s: [1_000 * (device + 1), 2_000 * (device + 1)],
            throttle_reasons: THROTTLE_CYCLE[usize::try_from(step % 4).unwrap_or_default()],
        }
    }
}
