//! The machine axis: bare metal, virtual machine or microVM, and its hypervisor.
//!
//! Yields [`Machine`] from CPUID, DMI, ACPI, the device tree and the kernel's command line, in the order of
//! trust that systemd's detection has established. A microVM is a virtual machine without the firmware of a
//! PC. Containers are found by `container`.

use super::{
    cpuid::Cpuid,
    evidence::{About, Notes},
    firmware::Firmware,
    root::{Root, clean},
};

/// The machine that runs the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineKind {
    /// No hypervisor, or the hypervisor's control domain, which owns the machine.
    BareMetal,
    /// A virtual machine with a PC's (or a server's) firmware.
    Vm,
    /// A virtual machine without such firmware.
    MicroVm,
}

impl MachineKind {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            MachineKind::BareMetal => "bare metal",
            MachineKind::Vm => "virtual machine",
            MachineKind::MicroVm => "microVM",
        }
    }
}

/// The machine and its hypervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Kind of machine.
    pub kind: MachineKind,
    /// The monitor or cloud, and the hypervisor below it where both are known: `Firecracker on KVM`.
    pub hypervisor: Option<String>,
}

/// Names in CPUID's hypervisor leaf.
const LEAVES: [(&str, &str); 12] = [
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    ("TCGTCGTCGTCG", "TCG"),
    ("VMwareVMware", "VMware"),
    ("Microsoft Hv", "Hyper-V"),
    ("XenVMMXenVMM", "Xen"),
    ("bhyve bhyve", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    ("SRESRESRESRE", "LMHS SRE"),
    ("QNXQVMBSQG", "QNX"),
    ("Apple VZ", "Apple Virtualization"),
    ("EVMMEVMMEVMM", "Intel KGT"),
];

/// Prefix of DMI fields, the product, and whether the name alone proves a virtual machine: clouds and server
/// makers also name real machines so.
const PRODUCTS: [(&str, &str, bool); 17] = [
    ("Cloud Hypervisor", "Cloud Hypervisor", true),
    ("KubeVirt", "KubeVirt", true),
    ("OpenStack", "OpenStack", true),
    ("Amazon EC2", "Amazon EC2", false),
    ("Google Compute Engine", "Google Compute Engine", false),
    ("KVM", "QEMU", true),
    ("QEMU", "QEMU", true),
    ("VirtualBox", "VirtualBox", true),
    ("innotek GmbH", "VirtualBox", true),
    ("VMware", "VMware", true),
    ("VMW", "VMware", true),
    ("Xen", "Xen", true),
    ("Bochs", "Bochs", true),
    ("Parallels", "Parallels", true),
    ("BHYVE", "bhyve", true),
    ("Apple Virtualization", "Apple Virtualization", true),
    ("Microsoft Corporation Virtual Machine", "Hyper-V", true),
];

/// Everything that was read, and the conclusions from each piece.
struct Signs {
    firmware: Firmware,
    /// The hypervisor's name by CPUID; empty if the table has no entry for it.
    leaf: Option<String>,
    /// CPUID reports no hypervisor.
    no_hypervisor: bool,
    product: Option<(&'static str, bool)>,
    cmdline: String,
    xen: Xen,
    kernel: Kernel,
}

/// Special kernels, which show more than the hardware does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Any,
    Wsl,
    Kata,
    /// gVisor shows no firmware, whatever machine is below it.
    Gvisor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Xen {
    No,
    Guest,
    /// The control domain, which owns the machine.
    Dom0,
}

pub(super) fn detect(root: &Root, cpuid: Option<&Cpuid>, notes: &mut Notes) -> Machine {
    let signs = Signs::read(root, cpuid, notes);
    let kind = signs.kind(notes);
    let hypervisor = if kind == MachineKind::BareMetal { None } else { signs.name() };
    Machine { kind, hypervisor }
}

impl Signs {
    fn read(root: &Root, cpuid: Option<&Cpuid>, notes: &mut Notes) -> Self {
        let firmware = Firmware::read(root);
        let leaf = cpuid.and_then(|cpuid| leaf(cpuid, notes));
        let product = product(&firmware);
        note_firmware(&firmware, notes);
        let cmdline = root.text("/proc/cmdline").unwrap_or_default();
        let release = root.value("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = if release.contains("WSL") || release.contains("Microsoft") {
            notes.add(About::Machine, "/proc/sys/kernel/osrelease", release);
            Kernel::Wsl
        } else if cmdline.split_whitespace().any(is_of_kata) {
            notes.add(About::Machine, "/proc/cmdline", "options of the Kata agent");
            Kernel::Kata
        } else if super::container::is_gvisor(root) {
            Kernel::Gvisor
        } else {
            Kernel::Any
        };
        let no_hypervisor = cpuid.is_some_and(|cpuid| !cpuid.hypervisor);
        Self { firmware, leaf, no_hypervisor, product, cmdline, xen: xen(root, notes), kernel }
    }

    fn kind(&self, notes: &mut Notes) -> MachineKind {
        if self.xen == Xen::Dom0 || !self.is_virtual(notes) {
            return MachineKind::BareMetal;
        }
        if self.kernel == Kernel::Kata || self.micro_monitor().is_some() {
            return MachineKind::MicroVm;
        }
        let has_tree = self.firmware.tree_compatible.is_some() || self.firmware.tree_hypervisor.is_some();
        // Xen's paravirtual guests, WSL, gVisor and guests by device tree lack DMI without being microVMs.
        let hides_firmware = self.xen != Xen::No || matches!(self.kernel, Kernel::Wsl | Kernel::Gvisor);
        let lacks_firmware = self.firmware.dmi.is_empty() && !has_tree && !hides_firmware;
        if lacks_firmware { MachineKind::MicroVm } else { MachineKind::Vm }
    }

    fn is_virtual(&self, notes: &mut Notes) -> bool {
        if self.leaf.is_some() || self.xen == Xen::Guest || matches!(self.kernel, Kernel::Kata | Kernel::Wsl)
        {
            return true;
        }
        if self.no_hypervisor {
            // The bit can be hidden; then the firmware of an emulated machine reveals it.
            let hidden = self.product.is_some_and(|(_, proves)| proves);
            if hidden {
                notes.add(
                    About::Machine,
                    "CPUID leaf 1",
                    "bit 31 clear: ignored, the firmware is an emulated machine's",
                );
            }
            return hidden;
        }
        // No CPUID on this architecture: only firmware is evidence.
        match self.product {
            Some((_, true)) => true,
            Some(("Amazon EC2", false)) => self.is_ec2_vm(),
            Some(_) => self.firmware.smbios_vm.unwrap_or(true),
            None => {
                self.firmware.tree_hypervisor.is_some()
                    || self.is_dummy_machine()
                    || self.firmware.smbios_vm == Some(true)
            }
        }
    }

    /// EC2 gives its real machines the same maker: the SMBIOS bit or the product's name decides.
    fn is_ec2_vm(&self) -> bool {
        let product = self.firmware.dmi("product_name").unwrap_or_default();
        let size = product.split_once('.').map_or("", |(_, size)| size);
        let is_metal = size == "metal" || size.starts_with("metal-");
        self.firmware.smbios_vm.unwrap_or(!is_metal)
    }

    /// The machine that QEMU and Firecracker show to ARM kernels.
    fn is_dummy_machine(&self) -> bool {
        self.firmware.tree_compatible.as_deref().is_some_and(|names| names.contains("linux,dummy-virt"))
    }

    /// The monitor, if it makes only microVMs or made one here.
    fn micro_monitor(&self) -> Option<&'static str> {
        let has_dmi = !self.firmware.dmi.is_empty();
        if self.firmware.has_acpi_owner("FIRECK").is_some() {
            return Some("Firecracker");
        }
        if self.firmware.has_acpi_owner("CLOUDH").is_some()
            || matches!(self.product, Some(("Cloud Hypervisor", _)))
        {
            return Some("Cloud Hypervisor");
        }
        if has_dmi {
            return None;
        }
        if self.firmware.has_acpi_owner("BOCHS").is_some() {
            return Some("QEMU microvm");
        }
        // Firecracker before ACPI (1.8) listed its devices on the kernel's command line.
        let words: Vec<&str> = self.cmdline.split_whitespace().collect();
        let by_cmdline =
            words.contains(&"pci=off") && words.iter().any(|word| word.starts_with("virtio_mmio.device="));
        let by_tree = self.is_dummy_machine() && !self.firmware.tree_has_qemu_config;
        (by_cmdline || by_tree).then_some("Firecracker")
    }

    /// `monitor on hypervisor`, or whichever is known.
    fn name(&self) -> Option<String> {
        let monitor = self.micro_monitor().or(self.product.map(|(product, _)| product));
        let monitor = if self.kernel == Kernel::Wsl { Some("WSL 2") } else { monitor };
        let below = self.leaf.as_deref().filter(|leaf| !leaf.is_empty());
        let below = below.or((self.xen == Xen::Guest).then_some("Xen"));
        let is_kata = self.kernel == Kernel::Kata;
        let kata = if is_kata { "Kata, " } else { "" };
        match (monitor, below) {
            // QEMU can offer Hyper-V's interface to its guests.
            (Some("QEMU"), Some("Hyper-V")) => Some(format!("{kata}QEMU")),
            (Some(monitor), Some(below)) if monitor != below => Some(format!("{kata}{monitor} on {below}")),
            (Some(one), _) | (None, Some(one)) => Some(format!("{kata}{one}")),
            (None, None) => self.firmware.tree_hypervisor.clone().or(is_kata.then(|| "Kata".to_owned())),
        }
    }
}

fn is_of_kata(word: &str) -> bool {
    word == "systemd.unit=kata-containers.target" || word.starts_with("agent.log=")
}

/// The hypervisor by CPUID; an empty name if the bit is set and the name is unknown.
fn leaf(cpuid: &Cpuid, notes: &mut Notes) -> Option<String> {
    if !cpuid.hypervisor {
        notes.add(About::Machine, "CPUID leaf 1", "bit 31 clear: no hypervisor");
        return None;
    }
    let vendors = cpuid.vendors.join(", ");
    let says = if vendors.is_empty() { "bit 31 set, no name".to_owned() } else { vendors };
    notes.add(About::Machine, "CPUID leaf 0x40000000", says);
    let known =
        |vendor: &String| LEAVES.iter().find(|(leaf, _)| *leaf == vendor.trim()).map(|(_, name)| *name);
    let names: Vec<&str> = cpuid.vendors.iter().filter_map(known).collect();
    // A hypervisor that offers another interface beside Hyper-V's is not Hyper-V.
    let own = names.iter().find(|name| **name != "Hyper-V").or(names.first());
    Some(own.map(|name| (*name).to_owned()).or_else(|| cpuid.vendors.first().cloned()).unwrap_or_default())
}

fn product(firmware: &Firmware) -> Option<(&'static str, bool)> {
    let maker = format!(
        "{} {}",
        firmware.dmi("sys_vendor").unwrap_or_default(),
        firmware.dmi("product_name").unwrap_or_default()
    );
    let mut values = firmware.dmi.iter().map(|(_, value)| value.as_str()).chain([maker.as_str()]);
    let known = |value: &str| PRODUCTS.iter().find(|(prefix, _, _)| value.starts_with(prefix));
    values.find_map(known).map(|&(_, product, proves)| (product, proves))
}

fn note_firmware(firmware: &Firmware, notes: &mut Notes) {
    if firmware.dmi.is_empty() {
        notes.add(About::Machine, "/sys/class/dmi/id", "absent");
    }
    for (field, value) in firmware.dmi.iter().take(2) {
        notes.add(About::Machine, format!("/sys/class/dmi/id/{field}"), value.as_str());
    }
    if let Some(is_vm) = firmware.smbios_vm {
        let says =
            if is_vm { "SMBIOS: a virtual machine" } else { "SMBIOS: not marked as a virtual machine" };
        notes.add(About::Machine, "/sys/firmware/dmi/entries/0-0/raw", says);
    }
    if let Some(owner) = firmware.acpi.first() {
        let source = format!("/sys/firmware/acpi/tables/{}", owner.table);
        notes.add(About::Machine, source, format!("made by {}", owner.oem));
    }
    for (name, value) in
        [("compatible", &firmware.tree_compatible), ("hypervisor/compatible", &firmware.tree_hypervisor)]
    {
        if let Some(value) = value {
            notes.add(About::Machine, format!("/proc/device-tree/{name}"), value.as_str());
        }
    }
}

fn xen(root: &Root, notes: &mut Notes) -> Xen {
    if root.value("/sys/hypervisor/type").as_deref() != Some("xen") {
        return Xen::No;
    }
    let capabilities = root.text("/proc/xen/capabilities").unwrap_or_default();
    let features = root.value("/sys/hypervisor/properties/features");
    let bits = features.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0);
    // Bit 11 is XENFEAT_dom0.
    let owns = capabilities.contains("control_d") || bits >> 11 & 1 == 1;
    let says = if owns { "xen, and this is its control domain" } else { "xen" };
    notes.add(About::Machine, "/sys/hypervisor/type", clean(says).unwrap_or_default());
    if owns { Xen::Dom0 } else { Xen::Guest }
}
