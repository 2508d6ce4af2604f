//! Containers that a killed lab left running: hidden neighbours of the next measurement.
//!
//! Yields the names of those removed. Containers without a lab's mark, or with the mark of a running lab, are
//! not touched.

use std::process::Command;

use anyhow::Result;

use super::mark;
use crate::{command, failure::failure};

/// A program, its arguments that list the names of all containers, and those that remove one completely.
type Engine = (&'static str, &'static [&'static str], &'static [&'static str]);

const ENGINES: [Engine; 3] = [
    ("runc", &["list", "--quiet"], &["delete", "--force"]),
    ("podman", &["ps", "--all", "--format", "{{.Names}}"], &["rm", "--force", "--ignore"]),
    ("docker", &["ps", "--all", "--format", "{{.Names}}"], &["rm", "--force"]),
];

/// Removes them. Fails if one stays: no run may be measured beside it.
pub(super) fn remove() -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for (program, list, remove) in ENGINES {
        for name in left(program, list) {
            // The list shows whether it is gone.
            let _ = command::text(Command::new(program).args(remove).arg(&name));
            removed.push(name);
        }
        if let Some(name) = left(program, list).first() {
            return Err(failure(
                format!("a container that a killed lab left does not go: {name}"),
                format!("{program} {} {name}", remove.join(" ")),
            ));
        }
    }
    Ok(removed)
}

/// An engine that is not installed or does not answer has no containers.
fn left(program: &str, list: &[&str]) -> Vec<String> {
    let text = command::text(Command::new(program).args(list)).unwrap_or_default();
    text.lines().map(str::trim).filter(|name| mark::is_of_dead(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, process::Command};

    use serde_json::json;

    use super::remove;
    use crate::{command, lab::mark::tests::of_dead_and_of_living};

    /// Runs until it is killed, on this machine's own files.
    fn start(bundle: &std::path::Path, name: &str) -> bool {
        fs::create_dir_all(bundle.join("rootfs")).unwrap();
        let bind = |place: &str| json!({ "type": "bind", "source": place, "destination": place, "options": ["rbind", "ro"] });
        let mut mounts = vec![json!({ "type": "proc", "source": "proc", "destination": "/proc" })];
        mounts.extend(["/lib", "/lib64", "/usr"].map(bind));
        let config = json!({
            "ociVersion": "1.0.2",
            "process": { "user": { "uid": 0, "gid": 0 }, "args": ["/usr/bin/sleep", "1000"], "cwd": "/" },
            "root": { "path": "rootfs" },
            "mounts": mounts,
            "linux": { "namespaces": [{ "type": "pid" }, { "type": "mount" }] },
        });
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        let mut runc = Command::new("runc");
        runc.args(["run", "--detach", "--bundle"]).arg(bundle).arg(name);
        // The container keeps the descriptors that it inherits.
        runc.stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        runc.status().is_ok_and(|status| status.success())
    }

    #[test]
    fn what_a_killed_lab_left_goes_with_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let [dead, living] = of_dead_and_of_living();
        let is_root = nix::unistd::geteuid().is_root();
        if !is_root || !start(&folder.path().join("dead"), &dead) {
            let mut out = std::io::stdout();
            let _ = writeln!(out, "skipped: abandoned: containers need root, and runc");
            return;
        }
        assert!(start(&folder.path().join("living"), &living));
        let list = || command::text(Command::new("runc").args(["list", "--quiet"])).unwrap();
        let is_there = |name: &str| list().lines().any(|line| line == name);
        let before = (is_there(&dead), is_there(&living));
        let removed = remove();
        let after = (is_there(&dead), is_there(&living));
        command::text(Command::new("runc").args(["delete", "--force", &living])).unwrap();
        assert!(removed.unwrap().contains(&dead));
        assert_eq!((before, after), ((true, true), (false, true)));
    }
}
