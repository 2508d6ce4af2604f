//! A container of runc: its own namespaces and root; the cores are a CPU quota, or a cpuset if it is pinned.
//!
//! The agent and the workload run in it together, so it is privileged: it may load BPF programs. It sees the
//! files of the machine (or virtual machine) that it needs at the same places, read-only.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{gpu::Node, link, mark, plan::Cell, programs::Programs};
use crate::command;

/// Default CPU period of Docker and the kernel, us.
const PERIOD_US: u32 = 100_000;
/// Places of the libraries that programs here are linked with.
const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr", "/etc/ssl"];
/// Folder for run folders.
pub(super) const RUNS: &str = "/runs";

/// A container that is about to run; what is left of it is removed on drop.
pub(super) struct Container {
    name: String,
    bundle: PathBuf,
}

impl Container {
    /// Writes the bundle for runc.
    pub(super) fn prepare(programs: &Programs, cell: &Cell, output: &Path, bundle: PathBuf) -> Result<Self> {
        let name = mark::container();
        let root = bundle.join("rootfs");
        fs::create_dir_all(&root).with_context(|| format!("folder: {}", root.display()))?;
        fs::create_dir_all(output).with_context(|| format!("folder: {}", output.display()))?;
        let mut argv = vec![programs.agent.display().to_string()];
        argv.extend(programs.arguments(cell, Path::new(RUNS)));
        let inside = Inside {
            argv,
            environment: programs.environment().collect(),
            places: places(programs, cell),
            output: output.to_owned(),
            capabilities: capabilities(),
            devices: programs.devices.clone(),
        };
        fs::write(bundle.join("config.json"), inside.config(cell).to_string())
            .context("the container's configuration")?;
        Ok(Self { name, bundle })
    }

    /// The command that runs it to its end.
    pub(super) fn command(&self) -> Command {
        let mut runc = Command::new("runc");
        runc.args(["run", "--bundle"]).arg(&self.bundle).arg(&self.name);
        runc
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Fails if the container has ended and nothing is left.
        let _ = command::text(Command::new("runc").args(["delete", "--force", &self.name]));
        drop(fs::remove_dir_all(&self.bundle));
    }
}

/// The content of a container.
pub(super) struct Inside {
    pub(super) argv: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Folders that are mounted at the same place, read-only.
    pub(super) places: Vec<PathBuf>,
    /// Folder for its run folders on this machine.
    pub(super) output: PathBuf,
    pub(super) capabilities: Vec<&'static str>,
    /// Devices of this machine beside those that every container has.
    pub(super) devices: Vec<Node>,
}

impl Inside {
    /// The configuration in runc's format.
    pub(super) fn config(&self, cell: &Cell) -> Value {
        let Self { argv, environment, capabilities, .. } = self;
        let mut told = vec!["PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(), "HOME=/tmp".to_owned()];
        told.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": { "uid": 0, "gid": 0 },
                "args": argv,
                "env": told,
                "cwd": "/",
                "capabilities": {
                    "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                },
            },
            "root": { "path": "rootfs", "readonly": false },
            "hostname": "lab",
            "mounts": self.mounts(),
            "linux": {
                "namespaces": [
                    { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" }, { "type": "network" },
                ],
                "devices": self.devices.iter().map(Node::made).collect::<Vec<_>>(),
                "resources": {
                    "cpu": cpu(cell),
                    "devices": self.devices.iter().map(Node::allowed).collect::<Vec<_>>(),
                },
            },
        })
    }

    fn mounts(&self) -> Vec<Value> {
        let bind = |from: &Path, to: &Path, options: &[&str]| {
            let options: Vec<&str> = ["rbind"].iter().chain(options).copied().collect();
            json!({ "type": "bind", "source": from, "destination": to, "options": options })
        };
        let own = |kind: &str, to: &str| json!({ "type": kind, "source": kind, "destination": to });
        let mut mounts = vec![
            own("proc", "/proc"),
            own("tmpfs", "/dev"),
            json!({ "type": "devpts", "source": "devpts", "destination": "/dev/pts", "options": ["newinstance"] }),
            own("tmpfs", "/tmp"),
            bind(Path::new("/sys"), Path::new("/sys"), &["ro"]),
            bind(&self.output, Path::new(RUNS), &["rw"]),
        ];
        mounts.extend(self.places.iter().map(|place| bind(place, place, &["ro"])));
        mounts
    }
}

/// Folders of this machine in a container: system libraries, the programs' folders, and the network
/// namespaces of its parts.
pub(super) fn places(programs: &Programs, cell: &Cell) -> Vec<PathBuf> {
    let namespaces = cell.workload.link_mbit.map(|_| PathBuf::from(link::NAMESPACES));
    let all = SYSTEM.map(PathBuf::from).into_iter().chain(programs.folders()).chain(namespaces);
    all.filter(|place| place.exists()).collect()
}

/// The capabilities that the agent needs to observe, with their bits in `linux/capability.h`.
const CAPABILITIES: [(&str, u32); 6] = [
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_RESOURCE", 24),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];

/// All of them: in a virtual machine the lab has all capabilities.
pub(super) fn all_capabilities() -> Vec<&'static str> {
    CAPABILITIES.map(|(name, _)| name).into()
}

/// Those of them that the lab's own process has and can pass on.
pub(super) fn capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let own = own.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX);
    CAPABILITIES.into_iter().filter(|(_, bit)| own >> bit & 1 == 1).map(|(name, _)| name).collect()
}

fn cpu(cell: &Cell) -> Value {
    if cell.pinned {
        json!({ "cpus": cell.cpu_list() })
    } else {
        json!({ "quota": i64::from(cell.cores) * i64::from(PERIOD_US), "period": PERIOD_US })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::{Inside, all_capabilities};
    use crate::lab::{gpu, plan::Kind, run::tests::cell};

    #[rstest]
    #[case(true, json!({ "cpus": "0-1" }))]
    #[case(false, json!({ "quota": 200_000, "period": 100_000 }))]
    fn cores_are_a_quota_or_a_cpuset(#[case] pinned: bool, #[case] expected: serde_json::Value) {
        let inside = Inside {
            argv: vec!["a".to_owned()],
            environment: vec![("N".to_owned(), "v".to_owned())],
            places: vec!["/lib".into()],
            output: "/results".into(),
            capabilities: all_capabilities(),
            devices: gpu::tests::card(),
        };
        let config = inside.config(&cell(Kind::Container, pinned));
        assert_eq!(config["linux"]["resources"]["cpu"], expected);
        assert_eq!(config["process"]["env"][2], "N=v");
        assert_eq!(config["linux"]["devices"][1]["path"], "/dev/nvidia0");
        assert_eq!(config["linux"]["resources"]["devices"][2]["minor"], 255);
        let mounts = config["mounts"].as_array().unwrap();
        let to_and_how =
            |at: usize| (&mounts[at]["source"], &mounts[at]["destination"], &mounts[at]["options"][1]);
        assert_eq!(to_and_how(5), (&json!("/results"), &json!("/runs"), &json!("rw")));
        assert_eq!(to_and_how(6), (&json!("/lib"), &json!("/lib"), &json!("ro")));
    }
}
