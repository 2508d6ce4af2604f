//! Facts about the guest for manifests and resource attributes.
//!
//! Yields [`Host`]. Every fact may be missing. No credentials and no addresses are read.

use super::{
    cores::Cores,
    root::{Root, clean, field},
};

/// Facts about the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Kernel release, for instance `6.12.117-amd64`.
    pub kernel_release: Option<String>,
    /// Kernel version: the build's number and date.
    pub kernel_version: Option<String>,
    /// Architecture as OpenTelemetry names it: `amd64`, `arm64`.
    pub arch: &'static str,
    /// Model of the first CPU.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub logical_cpus: u32,
    /// Memory of the guest, bytes.
    pub memory_bytes: Option<u64>,
    /// Node name.
    pub host_name: Option<String>,
    /// Content of /etc/machine-id.
    pub machine_id: Option<String>,
    /// Identifier of this boot.
    pub boot_id: Option<String>,
    /// `ID` of os-release: `debian`, `ubuntu`.
    pub os_id: Option<String>,
    /// Name of the distribution: `Debian GNU/Linux`.
    pub os_name: Option<String>,
    /// Version of the distribution: `12`.
    pub os_version: Option<String>,
}

impl Host {
    pub(super) fn read(root: &Root, cores: &Cores) -> Self {
        let os =
            root.text("/etc/os-release").or_else(|| root.text("/usr/lib/os-release")).unwrap_or_default();
        let os = |key: &str| field(&os, key, '=').and_then(clean);
        let cpus = root.text("/proc/cpuinfo").unwrap_or_default();
        let memory = root.text("/proc/meminfo").unwrap_or_default();
        Self {
            kernel_release: root.value("/proc/sys/kernel/osrelease"),
            kernel_version: root.value("/proc/sys/kernel/version"),
            arch: arch(std::env::consts::ARCH),
            cpu_model: cpu_model(&cpus).or_else(|| root.value("/proc/device-tree/model")),
            logical_cpus: cores.online.count(),
            memory_bytes: field(&memory, "MemTotal", ':').and_then(kilobytes),
            host_name: root.value("/proc/sys/kernel/hostname"),
            machine_id: root.value("/etc/machine-id").filter(|id| id.len() == 32),
            boot_id: root.boot_id(),
            os_id: os("ID"),
            os_name: os("NAME"),
            os_version: os("VERSION_ID"),
        }
    }
}

fn arch(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Model of the CPU; ARM kernels print numbers instead of a name.
fn cpu_model(cpus: &str) -> Option<String> {
    let of = |key: &str| field(cpus, key, ':').and_then(clean);
    let arm = || Some(format!("implementer {} part {}", of("CPU implementer")?, of("CPU part")?));
    of("model name").or_else(arm)
}

fn kilobytes(text: &str) -> Option<u64> {
    let number: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}
