//! Is there a driver of NVIDIA's, and where is its library? Yields a path or a name; loads nothing.

use std::{ffi::OsString, path::PathBuf};

use crate::platform::Root;
use crate::untrusted::Shown as _;

/// Names the library where it lies elsewhere; [`OFF`] for none at all.
const LIBRARY_VARIABLE: &str = "GUESTSCOPE_NVML";
/// Nobody is asked: a device that sleeps is not woken, and may be reset.
const OFF: &str = "off";
/// As drivers call it.
const NAME: &str = "libnvidia-ml.so.1";
/// The kernel's side of the driver: with it, the loader's own search is worth a try.
const DEVICE: &str = "/dev/nvidiactl";
/// Where distributions, container runtimes, Kubernetes nodes, WSL and NixOS put it.
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

/// A driver, by its library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// A path, or a name for the loader to search.
    pub library: OsString,
    /// What told, for people.
    pub evidence: String,
}

/// The driver of this guest.
pub fn find(root: &Root) -> Option<Driver> {
    find_in(root, std::env::var_os(LIBRARY_VARIABLE))
}

/// The same; `named` is what the environment says.
pub(super) fn find_in(root: &Root, named: Option<OsString>) -> Option<Driver> {
    if named.as_ref().is_some_and(|named| named == OFF) {
        return None;
    }
    if let Some(library) = named.filter(|named| !named.is_empty()) {
        return Some(Driver { library, evidence: format!("named by {LIBRARY_VARIABLE}") });
    }
    let there = |path: &PathBuf| root.has(path.shown().stored());
    if let Some(path) = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(NAME)).find(there) {
        let evidence = path.shown().to_string();
        return Some(Driver { library: path.into(), evidence });
    }
    root.has(DEVICE).then(|| Driver { library: NAME.into(), evidence: DEVICE.to_owned() })
}
