//! Names of QEMU, and those by which a guest knows its disks.

use super::matrix::Architecture;

/// QEMU's program for guests of an architecture, and its Debian package.
pub(super) fn emulator(architecture: Architecture) -> (&'static str, &'static str) {
    match architecture {
        Architecture::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
        Architecture::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
    }
}

/// Serial numbers by which a guest finds its disks: their order differs between buses.
pub(super) const WORK: &str = "work";
pub(super) const RESULTS: &str = "results";
pub(super) const SHARED: &str = "shared";
