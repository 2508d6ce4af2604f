//! The mark of a lab in the names of objects that it makes outside its own folder: namespaces, containers.
//!
//! Yields names and recognises their owners. A name contains the lab's process ID, which tells a killed lab
//! from a running one, and before it the scope of that ID, since an engine's daemon may serve labs in other
//! containers or machines.

use std::{fs, path::Path};

/// Prefix of all names.
const PREFIX: &str = "guestscope-lab-";

/// Name of a lab's current container.
pub(super) fn container() -> String {
    of(std::process::id())
}

/// A name for `part`, unique among labs.
pub(super) fn name(part: &str) -> String {
    format!("{}-{part}", container())
}

fn of(pid: u32) -> String {
    format!("{PREFIX}{}-{pid}", here())
}

/// This boot of this machine, and its PID namespace.
fn here() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    format!("{}{digits}", boot.chars().take(8).collect::<String>())
}

/// Whether a lab made it on this boot and in this PID namespace, and that lab's process is gone. If another
/// process has the same ID, it counts as alive, which does no harm.
pub(super) fn is_of_dead(name: &str) -> bool {
    let own = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(&here())?.strip_prefix('-'));
    let pid = own.and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use super::{container, is_of_dead, name, of};

    /// A container's name from a lab that is gone, and one from a lab that still runs.
    pub(in crate::lab) fn of_dead_and_of_living() -> [String; 2] {
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        [gone.id(), std::os::unix::process::parent_id()].map(of)
    }

    #[test]
    fn only_what_dead_labs_made_is_theirs() {
        let [dead, living] = of_dead_and_of_living();
        assert!(is_of_dead(&dead) && is_of_dead(&format!("{dead}-hub")));
        for name in [living, container(), name("hub"), "guestscope-lab-".to_owned()] {
            assert!(!is_of_dead(&name), "{name}");
        }
        let others = [
            dead.replace("lab", "demo"),
            format!("my-{dead}"),
            format!("{dead}x"),
            dead.replace("guestscope-lab-", ""),
            // Made on another machine, or seen from another container.
            dead.replace("guestscope-lab-", "guestscope-lab-0"),
        ];
        for name in others {
            assert!(!is_of_dead(&name), "{name}");
        }
    }
}
