//! A container of podman or Docker, started as users do: network, names and limits are the engine's defaults.
//! The agent runs in it with its workload, and gets the privileges that it needs to observe.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    container::{RUNS, capabilities, places},
    mark,
    plan::{Cell, Kind},
    programs::Programs,
};
use crate::command;

/// An empty image, since Docker does not accept a folder as a root.
const IMAGE: &str = "guestscope-lab:empty";

/// Whether Docker's daemon answers. A lab never installs Docker, because that changes the machine's network.
/// Imports the image if needed.
pub(super) fn docker(folder: &Path) -> Result<()> {
    let docker = |words: &[&str]| command::text(Command::new("docker").args(words));
    let version = docker(&["info", "--format", "{{.ServerVersion}}"]).unwrap_or_default();
    ensure!(!version.is_empty(), "`docker info` does not answer");
    if docker(&["image", "inspect", IMAGE]).is_none() {
        let archive = folder.join(".empty.tar");
        // The end-of-archive marker of tar.
        fs::write(&archive, [0; 1024]).with_context(|| format!("file: {}", archive.display()))?;
        let made = docker(&["import", &archive.display().to_string(), IMAGE]);
        // The image stays for the next lab: it is empty.
        let _ = fs::remove_file(&archive);
        ensure!(made.is_some(), "`docker import` failed");
    }
    Ok(())
}

/// A container that is about to run; what is left of it is removed on drop.
pub(super) struct Engine {
    program: &'static str,
    name: String,
    root: PathBuf,
    arguments: Vec<String>,
}

impl Engine {
    /// Its root is empty: everything else is mounted from this machine, read-only.
    pub(super) fn prepare(programs: &Programs, cell: &Cell, output: &Path, bundle: &Path) -> Result<Self> {
        let (name, root) = (mark::container(), bundle.join("engine"));
        for folder in [&root, output] {
            fs::create_dir_all(folder).with_context(|| format!("folder: {}", folder.display()))?;
        }
        let arguments = arguments(programs, cell, output, &name, &root);
        Ok(Self { program: cell.kind.name(), name, root, arguments })
    }

    /// The command that runs it to its end.
    pub(super) fn command(&self) -> Command {
        let mut engine = Command::new(self.program);
        engine.args(&self.arguments);
        engine
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Fails if the container has ended and nothing is left.
        let _ = command::text(Command::new(self.program).args(["rm", "--force", &self.name]));
        drop(fs::remove_dir_all(&self.root));
    }
}

fn arguments(programs: &Programs, cell: &Cell, output: &Path, name: &str, root: &Path) -> Vec<String> {
    let is_docker = cell.kind == Kind::Docker;
    // Works without systemd, and with the runtime of the lab's other containers, which is Docker's default.
    let before: &[&str] =
        if is_docker { &[] } else { &["--runtime", "runc", "--cgroup-manager", "cgroupfs"] };
    let words = before.iter().chain(&["run", "--rm", "--network", "none"]);
    let mut words: Vec<String> = words.map(|&word| word.to_owned()).collect();
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--name", name.to_owned());
    option("--workdir", "/".to_owned());
    // The default seccomp filter refuses bpf(2), and Docker's profile refuses the agent's reads of other
    // processes.
    option("--security-opt", "seccomp=unconfined".to_owned());
    if is_docker {
        option("--security-opt", "apparmor=unconfined".to_owned());
    }
    // The engine's default limits may exceed those of the user who runs the lab.
    option("--ulimit", "nofile=1024:1024".to_owned());
    option("--ulimit", "nproc=1000:1000".to_owned());
    option("--cap-drop", "all".to_owned());
    // Docker 20.10 does not know some of them, which CAP_SYS_ADMIN includes.
    let is_known = |name: &&str| !(is_docker && ["CAP_BPF", "CAP_PERFMON"].contains(name));
    for capability in capabilities().into_iter().filter(is_known) {
        option("--cap-add", capability.to_owned());
    }
    if cell.pinned {
        option("--cpuset-cpus", cell.cpu_list());
    } else {
        option("--cpus", cell.cores.to_string());
    }
    for place in places(programs, cell).into_iter().chain([PathBuf::from("/sys")]) {
        // Docker always binds recursively.
        let how = if is_docker { "ro" } else { "ro,rbind" };
        option("--volume", format!("{0}:{0}:{how}", place.display()));
    }
    for node in &programs.devices {
        option("--device", node.path.display().to_string());
    }
    option("--volume", format!("{}:{RUNS}", output.display()));
    // The agent puts the markers' library there, where the image has no /run.
    option("--tmpfs", if is_docker { "/tmp:exec" } else { "/tmp" }.to_owned());
    for (name, value) in programs.environment() {
        option("--env", format!("{name}={value}"));
    }
    option("--env", "HOME=/tmp".to_owned());
    if is_docker {
        words.push(IMAGE.to_owned());
    } else {
        option("--rootfs", root.display().to_string());
    }
    words.push(programs.agent.display().to_string());
    words.extend(programs.arguments(cell, Path::new(RUNS)));
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::arguments;
    use crate::lab::{
        gpu,
        plan::Kind,
        programs::Programs,
        run::tests::{cell, programs},
    };

    #[test]
    fn cores_are_a_quota_or_a_cpuset() {
        let line = |pinned| {
            let cell = cell(Kind::Podman, pinned);
            arguments(&programs(), &cell, Path::new("/o"), "n", Path::new("/root")).join(" ")
        };
        let (free, pinned) = (line(false), line(true));
        assert!(free.contains("--cpus 2 ") && !free.contains("--cpuset-cpus"), "{free}");
        assert!(pinned.contains("--cpuset-cpus 0-1 ") && !pinned.contains("--cpus "), "{pinned}");
        let end = "--rootfs /root /p/agent run --json --name w --output /runs -- /p/workloads infer loop";
        assert!(free.ends_with(end), "{free}");
    }

    #[test]
    fn a_card_is_given_by_its_nodes() {
        let programs = Programs { devices: gpu::tests::card(), ..programs() };
        for kind in [Kind::Podman, Kind::Docker] {
            let cell = cell(kind, true);
            let line = arguments(&programs, &cell, Path::new("/o"), "n", Path::new("/root")).join(" ");
            let nodes = "--device /dev/nvidia-uvm --device /dev/nvidia0 --device /dev/nvidiactl ";
            assert!(line.contains(nodes), "{line}");
        }
    }

    #[test]
    fn docker_is_told_the_same_in_its_own_words() {
        let cell = cell(Kind::Docker, true);
        let line = arguments(&programs(), &cell, Path::new("/o"), "n", Path::new("/root")).join(" ");
        assert!(line.starts_with("run --rm --network none --name n "), "{line}");
        assert!(line.contains("--cpuset-cpus 0-1 ") && line.contains("/sys:/sys:ro "), "{line}");
        let end =
            "guestscope-lab:empty /p/agent run --json --name w --output /runs -- /p/workloads infer loop";
        assert!(line.ends_with(end) && !line.contains("rbind") && !line.contains("rootfs"), "{line}");
    }
}
