//! A container of podman, as its users start one: network, names and limits are the engine's own. The agent goes into it
//! with its workload, and gets what it needs to observe.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{
    container::{self, RUNS, capabilities, places},
    plan::Cell,
    run::Programs,
};
use crate::command;

/// A container that is about to run; what it leaves behind goes with it.
pub(super) struct Podman {
    name: String,
    root: PathBuf,
    arguments: Vec<String>,
}

impl Podman {
    /// Its root is an empty folder: everything else comes from this machine, read-only.
    pub(super) fn prepare(programs: &Programs, cell: &Cell, output: &Path, bundle: &Path) -> Result<Self> {
        let (name, root) = (container::name(), bundle.join("podman"));
        for folder in [&root, output] {
            fs::create_dir_all(folder).with_context(|| format!("folder: {}", folder.display()))?;
        }
        let arguments = arguments(programs, cell, output, (&name, &root));
        Ok(Self { name, root, arguments })
    }

    /// Runs it to its end.
    pub(super) fn command(&self) -> Command {
        let mut podman = Command::new("podman");
        podman.args(&self.arguments);
        podman
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // After its end there is nothing left, and this does nothing.
        let _ = command::text(Command::new("podman").args(["rm", "--force", "--ignore", &self.name]));
        drop(fs::remove_dir_all(&self.root));
    }
}

fn arguments(programs: &Programs, cell: &Cell, output: &Path, (name, root): (&str, &Path)) -> Vec<String> {
    // Without systemd, and with the runtime that the other containers have.
    let mut words: Vec<String> =
        ["--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--network", "none"]
            .map(str::to_owned)
            .into();
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--name", name.to_owned());
    option("--workdir", "/".to_owned());
    // Its filter refuses bpf(2).
    option("--security-opt", "seccomp=unconfined".to_owned());
    // It asks for more than whoever runs the lab may have.
    option("--ulimit", "nofile=1024:1024".to_owned());
    option("--ulimit", "nproc=1000:1000".to_owned());
    option("--cap-drop", "all".to_owned());
    for capability in capabilities() {
        option("--cap-add", capability.to_owned());
    }
    if cell.pinned {
        option("--cpuset-cpus", cell.cpu_list());
    } else {
        option("--cpus", cell.cores.to_string());
    }
    for place in places(programs, cell).into_iter().chain([PathBuf::from("/sys")]) {
        option("--volume", format!("{0}:{0}:ro,rbind", place.display()));
    }
    option("--volume", format!("{}:{RUNS}", output.display()));
    option("--tmpfs", "/tmp".to_owned());
    for (name, value) in programs.environment() {
        option("--env", format!("{name}={value}"));
    }
    option("--env", "HOME=/tmp".to_owned());
    option("--rootfs", root.display().to_string());
    words.push(programs.agent.display().to_string());
    words.extend(programs.arguments(cell, Path::new(RUNS)));
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::arguments;
    use crate::lab::{
        plan::Kind,
        run::tests::{cell, programs},
    };

    #[test]
    fn cores_are_a_quota_or_a_cpuset() {
        let line = |pinned| {
            let cell = cell(Kind::Podman, pinned);
            arguments(&programs(), &cell, Path::new("/o"), ("n", Path::new("/root"))).join(" ")
        };
        let (free, pinned) = (line(false), line(true));
        assert!(free.contains("--cpus 2 ") && !free.contains("--cpuset-cpus"), "{free}");
        assert!(pinned.contains("--cpuset-cpus 0-1 ") && !pinned.contains("--cpus "), "{pinned}");
        let end = "--rootfs /root /p/agent run --json --name w --output /runs -- /p/workloads infer loop";
        assert!(free.ends_with(end), "{free}");
    }
}
