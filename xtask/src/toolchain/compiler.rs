//! A compiler: its version, where it is installed, and whether it has the sources of `core`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{Xtask, command, failure::failure, setup};

/// What `rustc -vV` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) commit: String,
    pub(super) host: String,
    pub(super) llvm_major: u32,
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let field =
            |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        Some(Self {
            commit: field("commit-hash: ")?,
            host: field("host: ")?,
            llvm_major: field("LLVM version: ")?.split('.').next()?.parse().ok()?,
        })
    }
}

pub(super) fn rustup(xtask: &Xtask, label: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("rustup");
    command.args(arguments).current_dir(&xtask.workspace.root);
    if arguments.first() == Some(&"toolchain") {
        command.arg("--no-self-update");
    }
    setup::command(xtask, label, "rustup", "installed", &mut command).map(drop)
}

pub(super) fn sysroot(rustc: &mut Command) -> Result<PathBuf> {
    let path = command::text(rustc.args(["--print", "sysroot"]));
    path.map(PathBuf::from).ok_or_else(|| failure("rustc does not say where it is installed", "reinstall it"))
}

pub(super) fn has_sources(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").exists()
}
