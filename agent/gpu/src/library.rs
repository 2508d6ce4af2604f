//! Finds NVIDIA's library, if there is a driver. Yields a path or a name; nothing is loaded.

use std::{
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::platform::Root;
use crate::untrusted::Shown as _;

/// Path of the library where it lies elsewhere; [`OFF`] for no driver at all.
const LIBRARY_VARIABLE: &str = "GUESTSCOPE_NVML";
/// No device is queried: a sleeping one is not woken, and may be reset.
const OFF: &str = "off";
/// The library's name in NVIDIA's drivers.
const NAME: &str = "libnvidia-ml.so.1";
/// Device file of the driver's kernel module: if it exists, the loader's own search may succeed.
const DEVICE: &str = "/dev/nvidiactl";
/// Folders of distributions, container runtimes, Kubernetes nodes, WSL and NixOS.
const FOLDERS: [&str; 10] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/home/kubernetes/bin/nvidia/lib64",
];

/// A driver, known by its library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// A path, or a name for the loader to search.
    pub library: OsString,
    /// The evidence for it, for people.
    pub evidence: String,
}

/// Whether only root can have put this file there or can replace it. Its code is executed, as root if only
/// root may use the devices. `root` stands for `/`, and its owner counts as root.
pub(super) fn is_roots_alone(root: &Path, path: &Path) -> bool {
    let Ok(top) = root.canonicalize() else { return false };
    let Ok(owner) = std::fs::metadata(&top).map(|found| found.uid()) else { return false };
    let is_safe = |path: &Path| {
        // With an access control list, these bits are the maximum that it grants.
        std::fs::metadata(path).is_ok_and(|found| found.uid() == owner && found.mode() & 0o022 == 0)
    };
    // Links are root's where they lie in such directories.
    let real = path.canonicalize().ok().filter(|real| real.starts_with(&top));
    real.is_some_and(|real| real.ancestors().take_while(|part| part.starts_with(&top)).all(is_safe))
}

/// Device files of drivers whose work a program can wait for: NVIDIA's (a container may have only one of
/// them), AMD's compute driver, the kernel's render nodes and accelerators, and WSL's.
const DEVICES: [&str; 6] =
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/dxg"];

/// Whether programs of this guest may wait for a graphics processor. `GUESTSCOPE_NVML=off` says no.
pub fn may_be_waited_for(root: &Root) -> bool {
    may_be_waited_for_in(root, std::env::var_os(LIBRARY_VARIABLE))
}

/// Like [`may_be_waited_for`], with the value of the environment variable in `named`.
pub(super) fn may_be_waited_for_in(root: &Root, named: Option<OsString>) -> bool {
    let is_off = named.as_ref().is_some_and(|named| named == OFF);
    !is_off && (DEVICES.iter().any(|device| root.has(device)) || find_in(root, named).is_some())
}

/// The driver of this guest.
pub fn find(root: &Root) -> Option<Driver> {
    find_in(root, std::env::var_os(LIBRARY_VARIABLE))
}

/// Like [`find`], with the value of the environment variable in `named`.
pub(super) fn find_in(root: &Root, named: Option<OsString>) -> Option<Driver> {
    if named.as_ref().is_some_and(|named| named == OFF) {
        return None;
    }
    if let Some(library) = named.filter(|named| !named.is_empty()) {
        return Some(Driver { library, evidence: format!("named by {LIBRARY_VARIABLE}") });
    }
    let there = |path: &PathBuf| {
        let path = root.path(path.shown().stored());
        path.exists() && is_roots_alone(&root.path(""), &path)
    };
    if let Some(path) = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(NAME)).find(there) {
        let evidence = path.shown().to_string();
        return Some(Driver { library: path.into(), evidence });
    }
    root.has(DEVICE).then(|| Driver { library: NAME.into(), evidence: DEVICE.to_owned() })
}
