//! The two file systems of the kernel that observing needs and a minimal system may not have mounted.
//!
//! Says what it mounts. It changes no other setting of the kernel, and unmounts nothing: others may use it by
//! then.

use std::{fs, process::Command};

use crate::{Xtask, command};

const NEEDED: [(&str, &str); 2] = [("tracefs", "/sys/kernel/tracing"), ("bpf", "/sys/fs/bpf")];

/// Mounts what is absent; where that is refused, says so and goes on.
pub(crate) fn ensure(xtask: &Xtask) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for (kind, place) in NEEDED {
        if is_mounted(&mounts, kind, place) {
            continue;
        }
        if command::succeeds(Command::new("mount").args(["-t", kind, "none", place])) {
            xtask.progress.say(&format!("mounted {kind} on {place}"));
        } else {
            xtask
                .progress
                .shortfall(format!("{kind} is not mounted on {place}, and this user may not mount it"));
        }
    }
}

fn is_mounted(mounts: &str, kind: &str, place: &str) -> bool {
    mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).any(|fields| {
        fields.get(1).is_some_and(|at| *at == place)
            && fields.get(2).is_some_and(|its_kind| *its_kind == kind)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_mounted;

    #[rstest]
    #[case("none /sys/fs/bpf bpf rw 0 0\n", true)]
    #[case("none /sys/fs/bpf tmpfs rw 0 0\n", false)]
    #[case("none /sys/fs/bpf2 bpf rw 0 0\n", false)]
    #[case("", false)]
    fn a_mount_is_told_by_place_and_kind(#[case] mounts: &str, #[case] expected: bool) {
        assert_eq!(is_mounted(mounts, "bpf", "/sys/fs/bpf"), expected);
    }
}
