//! Builds for arm64 on any machine: standard libraries for it, and Debian's cross compiler, which builds the
//! C code of dependencies and links everything.
//!
//! Yields [`Arm64`]. Nothing that is built so can be run here.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{Xtask, apt, artifact, command, toolchain::Toolchain};

/// Target of the static agent.
const TARGET: &str = "aarch64-unknown-linux-musl";
/// Target of the marker's shared library, which is embedded in the agent.
const LIBRARY_TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Everything is there.
pub(crate) struct Arm64<'a> {
    xtask: &'a Xtask,
    toolchain: &'a Toolchain,
}

impl<'a> Arm64<'a> {
    /// Finds or installs it.
    pub(crate) fn ensure(xtask: &'a Xtask, toolchain: &'a Toolchain) -> Result<Self> {
        for target in [TARGET, LIBRARY_TARGET] {
            toolchain.need_target(xtask, target)?;
        }
        if command::find(COMPILER).is_none() {
            apt::need(xtask, &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"])?;
        }
        Ok(Self { xtask, toolchain })
    }

    /// A cargo command for the target: `VERB` and what every build of it says.
    pub(crate) fn cargo(&self, verb: &str) -> Command {
        let mut command = self.xtask.workspace.cargo();
        command.args([verb, "--locked", "--target", TARGET]);
        if verb != "clippy" {
            // What runs there is emulated: without any optimisation a fault takes 5 minutes.
            command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_TEST_OPT_LEVEL", "1");
        }
        for target in [TARGET, LIBRARY_TARGET] {
            let name = target.replace('-', "_");
            command.env(format!("CC_{name}"), COMPILER);
            command.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), COMPILER);
        }
        self.toolchain.apply(&mut command);
        command
    }

    /// Where cargo puts what it builds.
    pub(crate) fn built(&self) -> PathBuf {
        self.xtask.workspace.target.join(TARGET).join("debug")
    }

    /// The features of the agent's tests.
    pub(crate) fn features(&self) -> String {
        let of_agent = |feature: &String| feature.split('/').next() == Some(artifact::AGENT);
        self.xtask.workspace.test_features().into_iter().filter(of_agent).collect::<Vec<_>>().join(",")
    }
}
