//! Where things are in this checkout, as cargo sees it: the root, the target folder, the test targets.
//!
//! Yields [`Workspace`]. It asks `cargo metadata` once and builds nothing.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{command, failure::failure};

pub(crate) const WORKLOADS: &str = "guestscope-workloads";
/// Its binaries run until they are stopped: `check` runs them, and `cargo test` must not.
pub(crate) const FUZZ: &str = "guestscope-fuzz";
/// The feature behind which tests of the running kernel stand.
pub(crate) const KERNEL_TESTS: &str = "kernel-tests";
/// Feature of tests of whole programs against a real Jaeger and other programs' readers.
pub(crate) const E2E_TESTS: &str = "e2e-tests";
/// Feature of tests of real Python servers, which need packages of 2 GB.
pub(crate) const SERVERS_TESTS: &str = "servers-tests";
/// Feature of tests that need a virtual machine of their own. Built with the others and never run on this
/// machine.
pub(crate) const GUEST_TESTS: &str = "guest-tests";
/// Feature of tests of the program that loads NVIDIA's library: a stub of it suffices.
pub(crate) const HELPER: &str = "helper";

/// This checkout.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) features: Vec<String>,
    pub(crate) tests: Vec<TestTarget>,
}

/// One file or folder under a package's `tests/`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestTarget {
    pub(crate) name: String,
    pub(crate) required_features: Vec<String>,
}

impl Workspace {
    /// The commit of this checkout, and whether something in it was changed since; none outside git.
    pub(crate) fn commit(&self) -> Option<String> {
        let mut describe = Command::new("git");
        describe
            .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
            .current_dir(&self.root);
        command::text(&mut describe)
    }

    /// The workspace that this xtask was built in.
    pub(crate) fn load() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
        let mut metadata = Command::new("cargo");
        metadata.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(root);
        let text = command::text(&mut metadata).ok_or_else(|| {
            failure(
                format!("cargo metadata failed in: {}", root.display()),
                "run `cargo metadata --no-deps` there to see why; a checkout that was moved needs `cargo clean`",
            )
        })?;
        let value: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        Self::parse(&value).context("cargo metadata misses a field")
    }

    fn parse(metadata: &Value) -> Option<Self> {
        Some(Self {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            packages: metadata["packages"].as_array()?.iter().filter_map(package).collect(),
        })
    }

    /// The packages that are built, linted and tested together; the workloads are separate, with libtorch.
    pub(crate) fn host_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| ![WORKLOADS, FUZZ].contains(&package.name.as_str()))
    }

    /// Test features of these packages, as `package/feature`.
    pub(crate) fn test_features(&self) -> Vec<String> {
        let pairs =
            self.host_packages().flat_map(|package| package.features.iter().map(move |f| (&package.name, f)));
        let of_tests = [KERNEL_TESTS, E2E_TESTS, SERVERS_TESTS, GUEST_TESTS, HELPER];
        pairs
            .filter(|(_, feature)| of_tests.contains(&feature.as_str()))
            .map(|(package, feature)| format!("{package}/{feature}"))
            .collect()
    }

    /// A cargo command in the root of the workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root);
        // What cargo has set for xtask itself must not reach the builds that xtask starts.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&*name);
            }
        }
        command
    }
}

fn package(value: &Value) -> Option<Package> {
    let tests = value["targets"].as_array()?.iter().filter(|target| target["kind"][0] == "test");
    Some(Package {
        name: value["name"].as_str()?.to_owned(),
        features: value["features"].as_object()?.keys().cloned().collect(),
        tests: tests
            .filter_map(|target| {
                Some(TestTarget {
                    name: target["name"].as_str()?.to_owned(),
                    required_features: strings(&target["required-features"]),
                })
            })
            .collect(),
    })
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Package, TestTarget, Workspace};

    #[test]
    fn metadata_becomes_a_list_of_test_targets() {
        let metadata = json!({
            "workspace_root": "/w", "target_directory": "/t",
            "packages": [{
                "name": "agent", "features": {"kernel-tests": [], "default": []},
                "targets": [
                    {"kind": ["lib"], "name": "agent"},
                    {"kind": ["test"], "name": "kernel", "required-features": ["kernel-tests"]},
                    {"kind": ["test"], "name": "cli"},
                ],
            }],
        });
        let test = |name: &str, features: &[&str]| TestTarget {
            name: name.to_owned(),
            required_features: features.iter().map(|&f| f.to_owned()).collect(),
        };
        let workspace = Workspace::parse(&metadata).unwrap();
        assert_eq!(workspace.test_features(), ["agent/kernel-tests"]);
        assert_eq!(
            workspace.packages,
            [Package {
                name: "agent".to_owned(),
                features: vec!["default".to_owned(), "kernel-tests".to_owned()],
                tests: vec![test("kernel", &["kernel-tests"]), test("cli", &[])],
            }]
        );
    }

    #[test]
    fn this_checkout_is_found() {
        let workspace = Workspace::load().unwrap();
        assert!(
            workspace.packages.iter().any(|package| package.name == "guestscope")
                && workspace.root.join("Cargo.lock").exists()
        );
    }
}
