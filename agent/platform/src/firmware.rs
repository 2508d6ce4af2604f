//! Evidence of the firmware: DMI, the SMBIOS bit for virtual machines, owners of ACPI tables, the device
//! tree.
//!
//! Yields [`Firmware`] as plain data. Only root can read the tables: other users learn less.

use super::root::{Root, clean};
use crate::untrusted::Untrusted;

const DMI: &str = "/sys/class/dmi/id";
const ACPI: &str = "/sys/firmware/acpi/tables";
const DEVICE_TREE: &str = "/proc/device-tree";

/// Fields of DMI that name a product, the most trusted first.
const DMI_FIELDS: [&str; 5] =
    ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];

/// Maker of an ACPI table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcpiOwner {
    pub(super) table: String,
    /// Six characters, space cut.
    pub(super) oem: String,
}

/// Evidence of the firmware.
#[derive(Clone, Debug, Default)]
pub(super) struct Firmware {
    /// Field and value; empty where there is no DMI.
    pub(super) dmi: Vec<(&'static str, String)>,
    /// BIOS characteristics: this is a virtual machine. None if unreadable.
    pub(super) smbios_vm: Option<bool>,
    pub(super) acpi: Vec<AcpiOwner>,
    /// `compatible` of the root, zeros as commas; none where there is no device tree.
    pub(super) tree_compatible: Option<String>,
    /// `compatible` of the hypervisor's node.
    pub(super) tree_hypervisor: Option<String>,
    /// The tree has a node of QEMU's configuration device.
    pub(super) tree_has_qemu_config: bool,
}

impl Firmware {
    pub(super) fn read(root: &Root) -> Self {
        let dmi = DMI_FIELDS.iter().filter_map(|&name| Some((name, root.value(&format!("{DMI}/{name}"))?)));
        let strings = |path: &str| {
            let text = root.text(&format!("{DEVICE_TREE}/{path}"))?;
            clean(&text.trim_end_matches('\0').replace('\0', ","))
        };
        Self {
            dmi: dmi.collect(),
            smbios_vm: smbios_vm(root),
            acpi: acpi_owners(root),
            tree_compatible: strings("compatible"),
            tree_hypervisor: strings("hypervisor/compatible"),
            tree_has_qemu_config: root.names(DEVICE_TREE).iter().any(|name| name.starts_with("fw-cfg@")),
        }
    }

    pub(super) fn dmi(&self, name: &str) -> Option<&str> {
        self.dmi.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has_acpi_owner(&self, oem: &str) -> Option<&AcpiOwner> {
        self.acpi.iter().find(|owner| owner.oem == oem)
    }
}

/// SMBIOS structure 0 (BIOS information), byte 0x13 (second extension byte), bit 4. DSP0134, section 7.1.2.2.
fn smbios_vm(root: &Root) -> Option<bool> {
    let bytes = root.bytes("/sys/firmware/dmi/entries/0-0/raw")?;
    bytes.get(0x13).map(|byte| byte >> 4 & 1 == 1)
}

/// Bytes 10 to 15 of a table's header. ACPI 6.5, section 5.2.6.
fn acpi_owners(root: &Root) -> Vec<AcpiOwner> {
    let owner = |table: &str| {
        let bytes = root.bytes(&format!("{ACPI}/{table}"))?;
        let oem = clean(Untrusted::of_bytes(bytes.get(10..16)?).stored())?;
        Some(AcpiOwner { table: table.to_owned(), oem })
    };
    ["DSDT", "FACP", "APIC", "MCFG"].iter().filter_map(|table| owner(table)).collect()
}
