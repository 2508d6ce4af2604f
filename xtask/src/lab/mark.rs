//! The mark of a lab in the names of what it makes outside its own folder: namespaces, containers.
//!
//! Yields names and tells whose they are. The number of the process stands in them, so that what a killed lab left is known
//! from what another one still uses; and before it where that number counts, since an engine's daemon may serve labs of other
//! containers, or of other machines.

use std::{fs, path::Path};

/// Before the number of the process.
const PREFIX: &str = "guestscope-lab-";

/// Of the only container that a lab has at a time.
pub(super) fn container() -> String {
    of(std::process::id())
}

/// Unique among labs.
pub(super) fn name(part: &str) -> String {
    format!("{}-{part}", container())
}

fn of(pid: u32) -> String {
    format!("{PREFIX}{}-{pid}", here())
}

/// This start of this machine, and the namespace of its processes' numbers.
fn here() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    format!("{}{digits}", boot.chars().take(8).collect::<String>())
}

/// A lab made it here, and that lab's process is gone. Whoever has its number meanwhile keeps it alive, which harms nobody else.
pub(super) fn is_of_dead(name: &str) -> bool {
    let own = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(&here())?.strip_prefix('-'));
    let pid = own.and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use super::{container, is_of_dead, name, of};

    /// A container's name as a lab that is gone had it, and one as a lab has it that still runs.
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
            // Of another machine, or seen from another container.
            dead.replace("guestscope-lab-", "guestscope-lab-0"),
        ];
        for name in others {
            assert!(!is_of_dead(&name), "{name}");
        }
    }
}
