//! The NVML process's report of devices, as the manifest keeps it: texts of the driver are cut and cleaned.

use guestscope_nvml::{Device, Hello, MOST_DEVICES, Virtualization};

use super::news::cleaned;
use guestscope_folder::{GpuDevice, GpuRecord};

/// Longest text of a driver that is kept, characters.
const TEXT: usize = 128;

/// The manifest's record of the devices, without any reading.
pub fn record(hello: &Hello) -> GpuRecord {
    GpuRecord {
        driver: hello.driver.as_deref().map(text),
        nvml: hello.nvml.as_deref().map(text),
        devices: hello.devices.iter().take(MOST_DEVICES as usize).map(device).collect(),
        ended_early: None,
        trace: None,
    }
}

fn device(device: &Device) -> GpuDevice {
    GpuDevice {
        index: device.index,
        name: device.name.as_deref().map(text).unwrap_or_default(),
        uuid: device.uuid.as_deref().map(text).unwrap_or_default(),
        pci_bus_id: device.pci_bus_id.as_deref().map(text),
        memory_bytes: device.memory_bytes,
        virtualization: device.virtualization.map(|mode| word(mode).to_owned()),
        ..GpuDevice::default()
    }
}

const fn word(mode: Virtualization) -> &'static str {
    match mode {
        Virtualization::None => "none",
        Virtualization::Passthrough => "passthrough",
        Virtualization::Vgpu => "vgpu",
        Virtualization::HostVgpu => "host_vgpu",
        Virtualization::HostVsga => "host_vsga",
    }
}

fn text(given: &str) -> String {
    cleaned(given, TEXT)
}
