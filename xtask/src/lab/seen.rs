//! The platform that the agent detected: each run's manifest has to agree with the lab, which made the
//! platform.
//!
//! Yields [`Seen`], which fails a run if the agent did not recognise its platform: its folder would be
//! compared under a wrong name.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::plan::Kind;

/// The platform in manifests and in `guestscope doctor --json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Seen {
    /// The first part of a scenario: `BM`, `VM`, `MVM`, `CN`, `VMCN` or `MVMCN`.
    platform: String,
    /// The monitor or cloud, and the hypervisor below it.
    hypervisor: Option<String>,
}

impl Seen {
    /// This machine as the agent sees it: the lab does not know whether it is a virtual one.
    pub(super) fn here(agent: &Path) -> Result<Self> {
        let doctor = Command::new(agent).args(["doctor", "--json"]).stdin(Stdio::null()).output();
        let output = doctor.context("could not start `guestscope doctor`")?;
        // The exit status says how much can be observed, which does not matter here.
        serde_json::from_slice(&output.stdout).context("the output of `guestscope doctor`")
    }

    /// Reads the platform from a run folder.
    pub(super) fn of_run(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let what = || format!("manifest: {}", path.display());
        let text = fs::read_to_string(&path).with_context(what)?;
        serde_json::from_str(&text).with_context(what)
    }

    /// Whether this is what a platform of that kind looks like on `host`.
    pub(super) fn check(&self, kind: Kind, host: &Self) -> Result<()> {
        let (platform, monitor) = expected(kind, host);
        let is_right = self.platform == platform && monitor.is_none_or(|monitor| self.monitor() == monitor);
        if is_right {
            return Ok(());
        }
        let monitor = monitor.map(|monitor| format!(" of {monitor}")).unwrap_or_default();
        let found = self.hypervisor.as_deref().map(|name| format!(" of {name}")).unwrap_or_default();
        bail!("the agent detected {}{found}, but it is {platform}{monitor}", self.platform)
    }

    /// The monitor without the hypervisor below it, which depends on this machine.
    fn monitor(&self) -> &str {
        let name = self.hypervisor.as_deref().unwrap_or_default();
        name.split_once(" on ").map_or(name, |(monitor, _)| monitor)
    }
}

/// The expected platform and, for QEMU's own, the monitor. An engine hides the firmware from its containers,
/// and with it the machine's vendor: then only the existence of a monitor is checked.
fn expected(kind: Kind, host: &Seen) -> (String, Option<&str>) {
    let machine = host.platform.strip_suffix("CN").unwrap_or(&host.platform);
    // A container on bare metal has no `BM` in its name.
    let machine = if machine == "BM" { "" } else { machine };
    match kind {
        Kind::Machine => (host.platform.clone(), Some(host.monitor())),
        Kind::Container | Kind::Podman | Kind::Docker => (format!("{machine}CN"), None),
        Kind::Vm => ("VM".to_owned(), Some("QEMU")),
        Kind::Microvm => ("MVM".to_owned(), Some("QEMU microvm")),
        Kind::ContainerInVm => ("VMCN".to_owned(), Some("QEMU")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::Seen;
    use crate::lab::plan::Kind;

    fn seen(platform: &str, hypervisor: &str) -> Seen {
        let hypervisor = (!hypervisor.is_empty()).then(|| hypervisor.to_owned());
        Seen { platform: platform.to_owned(), hypervisor }
    }

    const METAL: (&str, &str) = ("BM", "");
    const CLOUD: (&str, &str) = ("MVM", "Firecracker on KVM");
    /// The lab itself runs in a container.
    const INSIDE: (&str, &str) = ("VMCN", "Amazon EC2 on KVM");

    #[rstest]
    #[case(Kind::Machine, METAL, ("BM", ""), "")]
    #[case(Kind::Machine, CLOUD, ("MVM", "Firecracker on KVM"), "")]
    #[case(Kind::Machine, INSIDE, ("VMCN", "Amazon EC2 on KVM"), "")]
    #[case(Kind::Machine, METAL, ("CN", ""), "detected CN, but it is BM")]
    #[case(Kind::Machine, CLOUD, ("VM", "QEMU on KVM"), "detected VM of QEMU on KVM, but it is MVM of Firecracker")]
    #[case(Kind::Container, METAL, ("CN", ""), "")]
    #[case(Kind::Container, CLOUD, ("MVMCN", "Firecracker on KVM"), "")]
    #[case(Kind::Podman, CLOUD, ("MVMCN", "KVM"), "")]
    #[case(Kind::Podman, INSIDE, ("VMCN", "KVM"), "")]
    #[case(Kind::Docker, METAL, ("CN", ""), "")]
    #[case(Kind::Container, METAL, ("BM", ""), "detected BM, but it is CN")]
    #[case(Kind::Podman, CLOUD, ("MVM", "KVM"), "detected MVM of KVM, but it is MVMCN")]
    #[case(Kind::Vm, CLOUD, ("VM", "QEMU on TCG"), "")]
    #[case(Kind::Vm, METAL, ("VM", "QEMU on KVM"), "")]
    #[case(Kind::Vm, METAL, ("BM", ""), "detected BM, but it is VM of QEMU")]
    #[case(Kind::Vm, METAL, ("MVM", "QEMU microvm on TCG"), "but it is VM of QEMU")]
    #[case(Kind::Vm, METAL, ("VM", "VMware"), "detected VM of VMware, but")]
    #[case(Kind::Microvm, CLOUD, ("MVM", "QEMU microvm on TCG"), "")]
    #[case(Kind::Microvm, CLOUD, ("MVM", "Firecracker on KVM"), "but it is MVM of QEMU microvm")]
    #[case(Kind::ContainerInVm, CLOUD, ("VMCN", "QEMU on TCG"), "")]
    #[case(Kind::ContainerInVm, CLOUD, ("VM", "QEMU on TCG"), "but it is VMCN of QEMU")]
    fn the_agent_has_to_know_what_the_lab_made(
        #[case] kind: Kind,
        #[case] host: (&str, &str),
        #[case] found: (&str, &str),
        #[case] complaint: &str,
    ) {
        let checked = seen(found.0, found.1).check(kind, &seen(host.0, host.1));
        match checked {
            Ok(()) => assert_eq!(complaint, ""),
            Err(error) => {
                let error = error.to_string();
                assert!(!complaint.is_empty() && error.contains(complaint), "{error}");
            }
        }
    }

    #[test]
    fn a_manifest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"format": 1, "scenario": "MVM/2/VNL/CPU", "platform": "MVM", "hypervisor": null}"#;
        fs::write(folder.path().join("manifest.json"), manifest).unwrap();
        assert_eq!(Seen::of_run(folder.path()).unwrap(), seen("MVM", ""));
    }
}
