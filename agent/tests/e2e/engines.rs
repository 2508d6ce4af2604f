//! A real container engine: podman, which puts programs into groups, namespaces and files of its own making.

use std::{
    path::Path,
    process::{Command, Output},
};

use nix::sys::signal::Signal;

use crate::{
    ground::{Ground, eventually, skipped, subject, variable},
    running::Running,
};

/// Requests without end: each works for 100 us and waits for 900 us.
const REQUESTS: [&str; 4] = ["requests", "100000000", "100", "900"];
/// Folders of the libraries of programs that are not static.
const LIBRARIES: [&str; 4] = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"];

fn podman(arguments: &[&str]) -> Command {
    let mut command = Command::new("podman");
    // These options work without systemd.
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]).args(arguments);
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn said(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A container that runs the subject, and its image; both are removed when this is dropped.
struct Container {
    name: String,
    id: String,
    image: String,
}

impl Container {
    fn start(ground: &Ground) -> Self {
        let name = format!("guestscope-e2e-{}", std::process::id());
        let image = format!("localhost/{name}:1");
        let tar = ground.path("image.tar");
        // An empty image: all files that the program needs are mounted.
        let empty = ground.path("empty");
        std::fs::create_dir(&empty).expect("the folder is new");
        said(Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&empty).arg("."));
        said(podman(&["import", "--quiet"]).arg(&tar).arg(&image));
        let mut run = podman(&["run", "--detach", "--network", "none"]);
        run.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]).args(["--name", &name]);
        let lent = LIBRARIES.iter().map(Path::new).filter(|path| path.exists());
        for path in lent.chain([subject().as_path()]) {
            run.arg("--volume").arg(format!("{0}:{0}:ro", path.display()));
        }
        let id = said(run.arg(&image).arg(subject()).args(REQUESTS));
        Container { name, id, image }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        output(podman(&["rm", "--force", "--time", "0"]).arg(&self.id));
        output(podman(&["rmi", "--force"]).arg(&self.image));
    }
}

/// By its name, and by prefixes of its ID and of its name: each attaches to the program in it.
#[test]
fn a_container_of_podman() {
    let test = "engines::a_container_of_podman";
    if variable("GUESTSCOPE_DISPOSABLE").is_some() {
        return skipped(test, "no engine in a guest");
    }
    if guestscope::child::resolve("podman").is_err() {
        return skipped(test, "no program podman");
    }
    let Some(ground) = Ground::new(test) else { return };
    let container = Container::start(&ground);
    let pid: u32 = said(podman(&["inspect", "--format", "{{.State.Pid}}"]).arg(&container.id))
        .parse()
        .expect("it has a number");
    for wanted in [&container.name, &container.id[..12], &container.name[..container.name.len() - 1]] {
        let runs = ground.path(&format!("runs-{}", wanted.len()));
        let words = ["attach", "--json", "--container", wanted, "--output"];
        let run: Running = ground.command(&words).word(&runs).spawn();
        eventually("attached", || run.stderr().contains("attached to ").then_some(()));
        std::thread::sleep(std::time::Duration::from_millis(300));
        run.signal(Signal::SIGINT);
        let done = run.finish().expect(0);
        let summary = done.summary();
        assert_eq!(summary["service"], container.name.as_str(), "{wanted}");
        let requests = summary["requests"].as_u64();
        assert!(requests > Some(20), "{wanted}: {requests:?} requests of process {pid}");
    }
}
