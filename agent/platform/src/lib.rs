//! What the guest is, with the evidence for it: machine, container, cores, limits, and facts for the
//! manifest.
//!
//! Yields [`Guest`]. Everything is read below a [`Root`], in bounded size; what cannot be read is unknown,
//! and nothing here fails. It reads once; [`Usage`] follows what a program does later.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

mod cgroup;
mod container;
mod cores;
mod cpuid;
mod devices;
mod firmware;
mod groups;
mod host;
mod machine;
mod root;
pub mod topology;
mod usage;

#[cfg(any(test, feature = "samples"))]
#[allow(clippy::unwrap_used, reason = "for tests alone")]
mod samples;
#[cfg(test)]
mod tests;

pub use cgroup::{Cgroup, CpuQuota};
pub use container::Container;
pub use cores::{Cores, CpuList};
pub use cpuid::Cpuid;
pub use devices::Devices;
pub use groups::Groups;
pub use host::Host;
pub use machine::{Machine, MachineKind};
pub use root::{Root, Subject};
#[cfg(any(test, feature = "samples"))]
pub use samples::unpack;
pub use usage::Usage;

use guestscope_base::{mounts, patient, untrusted};

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The question that it speaks to.
    pub about: About,
    /// A path below the root, or the name of an instruction.
    pub source: String,
    /// Its content, and whether it counted.
    pub says: String,
}

/// A question that evidence speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Bare metal, virtual machine or microVM.
    Machine,
    /// Container or not.
    Container,
    /// How many CPUs may be used.
    Cores,
    /// Limits of control groups other than a quota of CPU time, which belongs to the cores.
    Limits,
}

impl About {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            About::Machine => "machine",
            About::Container => "container",
            About::Cores => "cores",
            About::Limits => "limits",
        }
    }
}

/// Evidence during collection.
#[derive(Debug, Default)]
struct Notes(Vec<Evidence>);

impl Notes {
    fn add(&mut self, about: About, source: impl Into<String>, says: impl Into<String>) {
        self.0.push(Evidence { about, source: source.into(), says: says.into() });
    }
}

/// The guest, as one process in it sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    /// The machine axis.
    pub machine: Machine,
    /// The container axis.
    pub container: Container,
    /// CPUs that the process may use.
    pub cores: Cores,
    /// The control groups of the process, and what they limit.
    pub cgroup: Cgroup,
    /// A program in it was seen to use a graphics processor.
    pub gpu_used: bool,
    /// Facts for the manifest and for resource attributes.
    pub host: Host,
    /// All evidence.
    pub evidence: Vec<Evidence>,
}

impl Guest {
    /// This guest, as this process sees it.
    pub fn here() -> Self {
        Self::read(&Root::system(), Cpuid::here().as_ref(), Subject::Own)
    }

    /// The guest below `root`, as `subject` sees it. `cpuid` is the processor's answer, where there is such
    /// an instruction.
    pub fn read(root: &Root, cpuid: Option<&Cpuid>, subject: Subject) -> Self {
        let mut notes = Notes::default();
        let machine = machine::detect(root, cpuid, &mut notes);
        let cgroup = Cgroup::read(root, subject);
        let container = container::detect(root, subject, &cgroup, &mut notes);
        let cores = Cores::read(root, subject, &cgroup, &mut notes);
        cgroup.note_limits(&mut notes);
        let host = Host::read(root, &cores);
        Self { machine, container, cores, cgroup, gpu_used: false, host, evidence: notes.0 }
    }

    /// `BM`, `VM`, `MVM`, `CN`, `VMCN` or `MVMCN`.
    pub const fn platform(&self) -> &'static str {
        match (self.machine.kind, self.container.is_container) {
            (MachineKind::BareMetal, false) => "BM",
            (MachineKind::BareMetal, true) => "CN",
            (MachineKind::Vm, false) => "VM",
            (MachineKind::Vm, true) => "VMCN",
            (MachineKind::MicroVm, false) => "MVM",
            (MachineKind::MicroVm, true) => "MVMCN",
        }
    }

    /// The container-host core ratio; none outside of containers.
    pub fn host_core_ratio(&self) -> Option<f64> {
        self.container.is_container.then(|| self.cores.host_ratio())
    }

    /// `platform/cores/pinning/processor`, for instance `MVM/2/VNL/CPU`: as requested, until programs were
    /// observed: see [`Usage`].
    pub fn scenario(&self) -> String {
        let pinning = if self.cores.pinned { "PIN" } else { "VNL" };
        let processor = if self.gpu_used { "GPU" } else { "CPU" };
        format!("{}/{}/{pinning}/{processor}", self.platform(), self.cores.usable_text())
    }
}
