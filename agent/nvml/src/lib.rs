//! Messages from the NVML process to the agent: one JSON object per line on its standard output.
//!
//! Yields [`Message`] and the words for NVML's throttle reasons. The crate depends on serde only, neither on
//! NVML nor on a JSON library, because the agent that reads these lines has its own.
//!
//! Order: one [`Hello`], then [`Sample`]s for as long as the NVML process lives. A [`Failed`] may come
//! anywhere; the process ends only if nothing is left to read, which its exit code shows, not the message. A
//! reader must expect incomplete lines: the process may hang in the driver or die at any call.

use serde::{Deserialize, Serialize};

mod throttle;

pub use throttle::{CLOCKS_HELD, GPU_IDLE, THROTTLE_REASONS, throttle_words};

/// Most devices that are reported: NVIDIA's largest machines have 16, and a broken count must not become an
/// endless loop.
pub const MOST_DEVICES: u32 = 64;

/// Readings of a device from one of its PCIe traffic, and of the memory of processes, to the next; devices
/// take turns.
pub const PCIE_EVERY: u32 = 10;

/// Most processes of one device in a message.
pub const MOST_PROCESSES: usize = 64;

/// One line of output of the NVML process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// NVML has been initialised; this is what it found.
    Hello(Hello),
    /// One reading of one device.
    Sample(Sample),
    /// What processes used of one device, where the driver has new numbers of that.
    Processes(Processes),
    /// What processes hold of one device's memory; once in [`PCIE_EVERY`] readings, if any holds some.
    Memory(Memory),
    /// A device had an error.
    Error(DeviceError),
    /// An operation failed.
    Failed(Failed),
}

/// The driver and its devices, said once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the kernel driver, such as `550.54.15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the NVML library, such as `12.550.54.15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml: Option<String>,
    /// The devices that will be sampled, in the order of their indexes; may be empty.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// Constant facts about a device. Values that the driver does not report are None.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// NVML's index, by which samples name the device; it may differ from CUDA's.
    pub index: u32,
    /// Product name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// NVML's identifier, such as `GPU-` and a UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Address as NVML writes it, with a domain of eight digits: `00000000:3B:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// Size of its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Highest clock of the multiprocessors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_sm_max_mhz: Option<u32>,
    /// How the device is attached to this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<Virtualization>,
}

/// NVML's virtualization mode of a device, as seen by the NVML process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Virtualization {
    /// A machine that the driver takes for bare metal.
    None,
    /// The whole device was handed to this guest.
    Passthrough,
    /// A virtual GPU inside a guest.
    Vgpu,
    /// A physical device of a host that serves virtual GPUs.
    HostVgpu,
    /// A physical device of a host that shares it by API.
    HostVsga,
}

/// One reading of one device. A value that the driver does not report, always or this time, is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC when the device had been read, ns.
    pub at_ns: u64,
    /// Duration of the reading, ns: what the driver cost, and how far apart the numbers of one sample can
    /// lie.
    pub took_ns: u64,
    /// [`Device::index`].
    pub device: u32,
    /// Share of the driver's last sampling period (1/6 s to 1 s, by product) in which a kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
    /// Share of that period in which device memory was read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_utilization_percent: Option<u32>,
    /// Memory in use; drivers older than 510 count what they reserve for themselves as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// Clock of the multiprocessors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_sm_mhz: Option<u32>,
    /// Clock of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_memory_mhz: Option<u32>,
    /// Power draw of the board; an average over a second on newer products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u32>,
    /// Temperature of the die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u32>,
    /// PCIe traffic to the device over 20 ms, bytes per second (NVML's KB/s times 1,000). Asked once in
    /// [`PCIE_EVERY`] readings: it takes the driver 20 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_to_device_bytes_per_s: Option<u64>,
    /// The same from the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_from_device_bytes_per_s: Option<u64>,
    /// NVML's bit mask as it is, with bits that have no word in [`THROTTLE_REASONS`] as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_reasons: Option<u64>,
}

/// What processes used of one device in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// CLOCK_MONOTONIC when the driver had been asked, ns.
    pub at_ns: u64,
    /// Length of the interval by the driver's clock, ns: since its samples that were told before.
    pub over_ns: u64,
    /// [`Device::index`].
    pub device: u32,
    /// At most [`MOST_PROCESSES`], those first that used most.
    #[serde(default)]
    pub list: Vec<ProcessUse>,
}

/// What a process used of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Process ID, as the driver tells it to the NVML process.
    pub pid: u32,
    /// Share of the interval in which a kernel of this process ran on the multiprocessors.
    pub sm_percent: u32,
}

/// What processes hold of one device's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// CLOCK_MONOTONIC when the driver had been asked, ns.
    pub at_ns: u64,
    /// [`Device::index`].
    pub device: u32,
    /// At most [`MOST_PROCESSES`], those first that hold most.
    #[serde(default)]
    pub list: Vec<ProcessMemory>,
}

/// What a process holds of a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Process ID, as the driver tells it to the NVML process.
    pub pid: u32,
    /// Bytes.
    pub bytes: u64,
}

/// An error of a device that its driver reported while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceError {
    /// CLOCK_MONOTONIC when it was read, up to a period after it happened, ns.
    pub at_ns: u64,
    /// [`Device::index`].
    pub device: u32,
    /// The driver's number (Xid); None for memory that could not be corrected (a double-bit ECC error).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xid: Option<u64>,
}

/// A failed operation; the others continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The operation, and the driver's or the loader's reason, for people.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::{
        Device, DeviceError, Failed, Hello, Memory, Message, ProcessMemory, ProcessUse, Processes, Sample,
        Virtualization,
    };

    /// One message of each kind, with all values and with none.
    fn messages() -> Vec<Message> {
        let device = Device {
            index: 1,
            name: Some("a \"device\"".to_owned()),
            uuid: Some("GPU-1".to_owned()),
            pci_bus_id: Some("00000000:3B:00.0".to_owned()),
            memory_bytes: Some(u64::MAX),
            clock_sm_max_mhz: Some(1_980),
            virtualization: Some(Virtualization::HostVsga),
        };
        let sample = Sample {
            at_ns: u64::MAX,
            took_ns: 1,
            device: 1,
            utilization_percent: Some(100),
            memory_utilization_percent: Some(0),
            memory_used_bytes: Some(1 << 33),
            clock_sm_mhz: Some(1_980),
            clock_memory_mhz: Some(2_619),
            power_mw: Some(700_000),
            temperature_celsius: Some(84),
            pcie_to_device_bytes_per_s: Some(1 << 35),
            pcie_from_device_bytes_per_s: Some(0),
            throttle_reasons: Some(1 << 63),
        };
        vec![
            Message::Hello(Hello::default()),
            Message::Hello(Hello {
                driver: Some("550.54.15".to_owned()),
                nvml: Some("12.550.54.15".to_owned()),
                devices: vec![Device::default(), device],
            }),
            Message::Sample(Sample::default()),
            Message::Sample(sample),
            Message::Processes(Processes::default()),
            Message::Processes(Processes {
                at_ns: u64::MAX,
                over_ns: 1,
                device: 1,
                list: vec![ProcessUse { pid: 1, sm_percent: 100 }; 2],
            }),
            Message::Memory(Memory::default()),
            Message::Memory(Memory {
                at_ns: u64::MAX,
                device: 1,
                list: vec![ProcessMemory { pid: 1, bytes: u64::MAX }; 2],
            }),
            Message::Error(DeviceError::default()),
            Message::Error(DeviceError { at_ns: u64::MAX, device: 1, xid: Some(79) }),
            Message::Failed(Failed { what: "no\ndriver".to_owned() }),
        ]
    }

    #[test]
    fn every_message_is_one_line_and_comes_back_the_same() {
        for message in messages() {
            let line = serde_json::to_string(&message).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message, "{line}");
        }
    }

    #[test]
    fn the_words_on_the_wire_stay() {
        let sample = Sample { at_ns: 7, took_ns: 2, device: 1, power_mw: Some(3), ..Sample::default() };
        let line = serde_json::to_string(&Message::Sample(sample)).unwrap();
        assert_eq!(line, r#"{"sample":{"at_ns":7,"took_ns":2,"device":1,"power_mw":3}}"#);
        let modes = [
            (Virtualization::None, "none"),
            (Virtualization::Passthrough, "passthrough"),
            (Virtualization::Vgpu, "vgpu"),
            (Virtualization::HostVgpu, "host_vgpu"),
            (Virtualization::HostVsga, "host_vsga"),
        ];
        for (mode, word) in modes {
            assert_eq!(serde_json::to_value(mode).unwrap(), word);
        }
    }

    #[test]
    fn fields_of_a_newer_helper_are_ignored_and_missing_ones_are_none() {
        let line = r#"{"sample":{"at_ns":7,"took_ns":2,"device":0,"fan_percent":30,"nested":{"a":[1]}}}"#;
        let expected = Message::Sample(Sample { at_ns: 7, took_ns: 2, ..Sample::default() });
        assert_eq!(serde_json::from_str::<Message>(line).unwrap(), expected);

        let line = r#"{"hello":{"driver":null,"cuda":"12.4","devices":[{"index":0,"serial":"1"}]}}"#;
        let expected = Message::Hello(Hello { devices: vec![Device::default()], ..Hello::default() });
        assert_eq!(serde_json::from_str::<Message>(line).unwrap(), expected);

        assert_eq!(
            serde_json::from_str::<Message>(r#"{"hello":{}}"#).unwrap(),
            Message::Hello(Hello::default())
        );
    }

    #[test]
    fn a_sample_without_its_time_is_refused() {
        assert!(serde_json::from_str::<Message>(r#"{"sample":{"device":0}}"#).is_err());
    }
}
