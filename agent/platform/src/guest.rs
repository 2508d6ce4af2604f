//! The guest, as one process in it sees it.

use super::{
    cgroup::Cgroup,
    container::{self, Container},
    cores::Cores,
    cpuid::Cpuid,
    evidence::{Evidence, Notes},
    host::Host,
    machine::{self, Machine, MachineKind},
    root::{Root, Subject},
};

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
