//! Which sources for detecting a restoration this machine offers, for `doctor`. Yields one finding per
//! source; nothing is changed.

use std::path::Path;

use super::{
    kernel_log::{self, KernelLog},
    vmclock::{self, VmClock},
};
use crate::{phase::RestoredBy, platform::Root};

/// State of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The source is watched.
    Present,
    /// The hypervisor offers none.
    Absent,
    /// The machine offers it, but this kernel has no driver for it.
    Unsupported,
    /// There is one that this process may not read.
    Refused,
}

impl State {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            State::Present => "present",
            State::Absent => "absent",
            State::Unsupported => "unsupported",
            State::Refused => "refused",
        }
    }
}

/// A source, its state, and the consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSource {
    /// The source.
    pub source: RestoredBy,
    /// State of the source.
    pub state: State,
    /// What it shows; or, if it is absent, what is missed without it.
    pub consequence: String,
    /// Remedy, if there is any.
    pub remedy: Option<String>,
}

/// Traces of a source in this machine.
struct Traces {
    /// There is a device.
    offered: bool,
    /// A driver has taken it.
    bound: bool,
    /// Why it cannot be read; none if it can.
    refused: Option<String>,
}

impl Traces {
    const fn state(&self) -> State {
        match (self.offered || self.bound, self.bound, self.refused.is_some()) {
            (false, ..) => State::Absent,
            (true, false, _) => State::Unsupported,
            (true, true, true) => State::Refused,
            (true, true, false) => State::Present,
        }
    }
}

/// Both sources below a root; the kernel's log and the clock's device are those of the running system.
pub fn find(root: &Root) -> [RestoreSource; 2] {
    let log = KernelLog::open(Path::new(kernel_log::PATH)).err().map(|error| error.to_string());
    let clock = VmClock::open(Path::new(vmclock::PATH)).err().map(|error| error.to_string());
    let vmgenid = Traces {
        offered: offers(root, "VM_GEN_COUNTER") || offers(root, "VMGENCTR"),
        bound: has_device(root, "/sys/bus/platform/drivers/vmgenid")
            || has_device(root, "/sys/bus/acpi/drivers/vmgenid"),
        refused: log,
    };
    let has_clock = root.has(vmclock::PATH);
    let vmclock = Traces { offered: offers(root, "VMCLOCK"), bound: has_clock, refused: clock };
    [vmgenid_source(&vmgenid), vmclock_source(&vmclock)]
}

/// Whether a firmware device has this name, or is compatible with it.
fn offers(root: &Root, name: &str) -> bool {
    const DEVICES: &str = "/sys/bus/acpi/devices";
    let devices = root.names(DEVICES);
    let mut modalias = devices.iter().filter_map(|device| root.text(&format!("{DEVICES}/{device}/modalias")));
    modalias.any(|text| text.trim().split(':').any(|word| word == name))
}

/// Whether the driver has a device: beside its own files its folder has a link to each.
fn has_device(root: &Root, driver: &str) -> bool {
    root.names(driver).iter().any(|name| name != "module" && root.link(&format!("{driver}/{name}")).is_some())
}

fn vmgenid_source(traces: &Traces) -> RestoreSource {
    let state = traces.state();
    let (consequence, remedy) = match state {
        State::Present => ("restores of the guest from a snapshot, from the kernel's log".to_owned(), None),
        State::Absent => ("not offered here: a restore shows as a pause, or not at all".to_owned(), None),
        State::Unsupported => (
            "offered by the hypervisor, but not supported by this kernel".to_owned(),
            Some("kernels from 5.18 on with CONFIG_VMGENID support it"),
        ),
        State::Refused => (
            format!(
                "the kernel's log may not be read ({}), and few kernels report it in another way",
                traces.refused.as_deref().unwrap_or_default()
            ),
            Some("CAP_SYSLOG allows it, in a container with /dev/kmsg"),
        ),
    };
    RestoreSource { source: RestoredBy::Vmgenid, state, consequence, remedy: remedy.map(str::to_owned) }
}

fn vmclock_source(traces: &Traces) -> RestoreSource {
    let state = traces.state();
    let (consequence, remedy) = match state {
        State::Present => ("restores and moves of the guest, from its clock's page".to_owned(), None),
        State::Absent => ("not offered here: a move shows as a pause, or not at all".to_owned(), None),
        State::Unsupported => (
            "offered by the hypervisor, but not supported by this kernel".to_owned(),
            Some("kernels from 6.13 on with CONFIG_PTP_1588_CLOCK_VMCLOCK support it"),
        ),
        State::Refused => (
            format!("{} may not be read: {}", vmclock::PATH, traces.refused.as_deref().unwrap_or_default()),
            Some("run it as root"),
        ),
    };
    RestoreSource { source: RestoredBy::Vmclock, state, consequence, remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case((false, false, true), State::Absent)]
    #[case((true, false, true), State::Unsupported)]
    #[case((true, true, true), State::Refused)]
    #[case((true, true, false), State::Present)]
    fn a_source_is_watched_where_there_is_all_that_it_needs(
        #[case] (offered, bound, is_refused): (bool, bool, bool),
        #[case] state: State,
    ) {
        let traces = Traces { offered, bound, refused: is_refused.then(|| "why".to_owned()) };
        for sign in [vmgenid_source(&traces), vmclock_source(&traces)] {
            assert_eq!(sign.state, state);
            let says_what_to_do = matches!(state, State::Unsupported | State::Refused);
            assert_eq!(sign.remedy.is_some(), says_what_to_do, "{sign:?}");
            assert_eq!(sign.consequence.contains("why"), state == State::Refused, "{sign:?}");
        }
    }

    /// QEMU and Firecracker name the device differently; its compatible id is the same.
    #[test]
    fn devices_are_found_by_what_they_are_compatible_with() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let acpi = |name: &str, modalias: &str| {
            let device = folder.path().join("sys/bus/acpi/devices").join(name);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("modalias"), modalias).unwrap();
        };
        assert!(!offers(&root, "VM_GEN_COUNTER"));
        acpi("QEMU0002:00", "acpi:QEMU0002:\n");
        assert!(!offers(&root, "VM_GEN_COUNTER") && !offers(&root, "VMCLOCK"));
        acpi("QEMUVGID:00", "acpi:QEMUVGID:VM_GEN_COUNTER:\n");
        acpi("AMZNC10C:00", "acpi:AMZNC10C:VMCLOCK:\n");
        assert!(offers(&root, "VM_GEN_COUNTER") && offers(&root, "VMCLOCK"));
    }

    #[test]
    fn a_driver_without_a_device_listens_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let driver = folder.path().join("sys/bus/platform/drivers/vmgenid");
        fs::create_dir_all(&driver).unwrap();
        fs::write(driver.join("bind"), "").unwrap();
        symlink("../../../../module/vmgenid", driver.join("module")).unwrap();
        assert!(!has_device(&root, "/sys/bus/platform/drivers/vmgenid"));
        symlink("../../../../devices/platform/QEMUVGID:00", driver.join("QEMUVGID:00")).unwrap();
        assert!(has_device(&root, "/sys/bus/platform/drivers/vmgenid"));
    }
}
