//! GPUs in a run folder: their columns of `samples`, and their part of the manifest.

use serde::{Deserialize, Serialize};

use super::{
    sample::Sample,
    table::{Access, Column},
};
use crate::phase::{GpuReading, GpuUse};

/// The manifest's section on graphics processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuRecord {
    /// Version of the driver; none if there is no driver, or it does not report its version.
    pub driver: Option<String>,
    /// Version of its library, which was asked; none as above.
    pub nvml: Option<String>,
    /// The devices that it has, by their numbers.
    pub devices: Vec<GpuDevice>,
    /// Why sampling stopped before the end, for people.
    pub ended_early: Option<String>,
    /// Recording of what ran on the devices, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<GpuTraceRecord>,
}

/// Recording of what ran on devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuTraceRecord {
    /// Windows as they were asked for: `200ms/10s`, `always`, `trigger`.
    pub asked: String,
    /// Programs in which CUPTI was found.
    pub programs: u64,
    /// Version of CUPTI's interface in the first of them.
    pub cupti_version: Option<u32>,
    /// What failed, for people, the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

/// A device, and how it was used in all of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuDevice {
    /// Number, as the driver counts.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// UUID: the same wherever the device is plugged in.
    pub uuid: String,
    /// PCI address: `00000000:3B:00.0`; none if the driver does not report it.
    pub pci_bus_id: Option<String>,
    /// Size of its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Virtualization: `none`, `passthrough`, `vgpu`, `host_vgpu`, `host_vsga`; none if not reported.
    pub virtualization: Option<String>,
    /// Times that it was looked at.
    pub readings: u64,
    /// Mean.
    pub utilization_percent: Option<u64>,
    /// Mean of the readings while requests ran.
    pub serving_percent: Option<u64>,
    /// Mean.
    pub memory_utilization_percent: Option<u64>,
    /// Largest.
    pub memory_used_bytes: Option<u64>,
    /// Smallest.
    pub clock_sm_mhz: Option<u64>,
    /// Mean.
    pub power_mw: Option<u64>,
    /// Largest.
    pub temperature_celsius: Option<u64>,
    /// Readings in which its clocks were throttled.
    pub throttled: u64,
    /// Reasons in any of them, with NVML's names.
    pub throttled_by: Vec<String>,
    /// Whether an observed process used it; none where the driver shows no process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_used: Option<bool>,
    /// Processes that held its memory, those first that held most; only if an observed one held some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<GpuHolder>,
    /// Errors that its driver reported, the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<GpuFault>,
}

/// A process that held memory of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuHolder {
    /// Process ID.
    pub pid: u32,
    /// Its name; untrusted.
    pub comm: String,
    /// The most that it held, bytes.
    pub memory_bytes: u64,
    /// Whether it was observed.
    pub is_observed: bool,
}

/// An error of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFault {
    /// CLOCK_MONOTONIC when it was read, up to 200 ms after it happened, ns.
    pub time_ns: u64,
    /// The driver's number (Xid); none for memory that could not be corrected (a double-bit ECC error).
    pub xid: Option<u64>,
}

impl GpuFault {
    /// `Xid 79`
    pub fn name(&self) -> String {
        self.xid.map_or_else(|| "an ECC error that was not corrected".to_owned(), |xid| format!("Xid {xid}"))
    }
}

impl GpuRecord {
    /// How busy the busiest device of the observed processes was while requests ran, percent.
    pub fn serving_percent(&self) -> Option<u64> {
        let is_only = self.devices.len() == 1;
        let used = self.devices.iter().filter(|device| device.is_used.unwrap_or(is_only));
        used.filter_map(|device| device.serving_percent).max()
    }
}

impl GpuDevice {
    /// Takes over the totals of its readings.
    pub fn used(&mut self, total: &GpuUse) {
        self.readings = total.readings;
        self.utilization_percent = total.utilization_percent;
        self.serving_percent = total.serving_percent;
        self.memory_utilization_percent = total.memory_utilization_percent;
        self.memory_used_bytes = total.memory_used_bytes;
        self.clock_sm_mhz = total.clock_sm_mhz;
        self.power_mw = total.power_mw;
        self.temperature_celsius = total.temperature_celsius;
        self.throttled = total.throttled;
    }
}

/// A field of a reading, to read and to write.
type Field = (fn(&GpuReading) -> Option<u64>, fn(&mut GpuReading, u64));

/// A column of a device's reading; none in rows without a device.
fn column(name: &'static str, help: &'static str, (get, set): Field) -> Column<Sample> {
    let access = Access::OptionalInteger {
        get: Box::new(move |row: &Sample| row.gpu.as_ref().and_then(get)),
        set: Box::new(move |row, value| set(row.gpu.get_or_insert_default(), value)),
    };
    Column { may_lack: true, ..Column::new(name, help, access) }
}

/// The GPU columns of `samples`.
pub(super) fn columns() -> Vec<Column<Sample>> {
    macro_rules! field {
        ($field:ident) => {
            (|gpu: &GpuReading| gpu.$field, |gpu: &mut GpuReading, value| gpu.$field = Some(value))
        };
    }
    vec![
        column(
            "gpu",
            "number of the graphics processor of the columns after this one; those before it are of the last reading of the guest",
            (|gpu| Some(u64::from(gpu.device)), |gpu, value| gpu.device = value as u32),
        ),
        column(
            "gpu_time_ns",
            "CLOCK_MONOTONIC after the reading",
            (|gpu| Some(gpu.time_ns), |gpu, value| gpu.time_ns = value),
        ),
        column(
            "gpu_utilization_percent",
            "share of the driver's last interval in which a kernel ran there",
            field!(utilization_percent),
        ),
        column(
            "gpu_memory_utilization_percent",
            "share of it in which its memory was read or written",
            field!(memory_utilization_percent),
        ),
        column("gpu_memory_used_bytes", "its memory in use, by all processes", field!(memory_used_bytes)),
        column("gpu_clock_sm_mhz", "clock of its multiprocessors", field!(clock_sm_mhz)),
        column("gpu_clock_memory_mhz", "clock of its memory", field!(clock_memory_mhz)),
        column("gpu_power_mw", "power draw", field!(power_mw)),
        column("gpu_temperature_celsius", "temperature", field!(temperature_celsius)),
        column(
            "gpu_pcie_to_device_bytes_per_s",
            "PCIe traffic to it, in some rows",
            field!(pcie_to_device_bytes_per_s),
        ),
        column(
            "gpu_pcie_from_device_bytes_per_s",
            "PCIe traffic from it, in some rows",
            field!(pcie_from_device_bytes_per_s),
        ),
        column(
            "gpu_throttle_reasons",
            "why its clocks are not higher: bits of NVML's clocks event reasons",
            field!(throttle_reasons),
        ),
    ]
}
