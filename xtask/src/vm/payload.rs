//! What goes into every guest, and is run on this machine too: the static agent, its kernel tests with their subject, and
//! the examples that a guest starts with.
//!
//! Yields the paths and, for guests, a disk image of the programs. All are linked statically: a guest has no library.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    Xtask, apt,
    artifact::{self, AGENT},
    setup,
    toolchain::Toolchain,
    workspace::KERNEL_TESTS,
};

/// The first program of a guest, the verifier's questioner, and the program that the tests observe.
const INIT: &str = "guest_init";
const PROGRAMS: &str = "programs";
const SUBJECT: &str = "kernel_subject";
/// Programs take 100 to 200 MB of it; tests write files of 64 MiB. What stays empty takes no space.
const DISK_BYTES: u64 = 1 << 30;
/// Where a guest finds its disk.
pub(crate) const MOUNTED: &str = "/work";

/// Built programs.
pub(crate) struct Payload {
    pub(crate) init: PathBuf,
    /// The file system with the programs.
    pub(crate) disk: PathBuf,
    /// Where they are on this machine, laid out as on the disk.
    pub(crate) here: PathBuf,
}

impl Payload {
    pub(crate) fn build(xtask: &Xtask, toolchain: &Toolchain) -> Result<Self> {
        let agent = artifact::agent(xtask, toolchain)?;
        let cargo = |verb: &str| {
            let mut cargo = xtask.workspace.cargo();
            cargo.args([verb, "--locked", "--package", AGENT, "--features", KERNEL_TESTS]);
            cargo.args(["--target", &toolchain.agent_target]);
            toolchain.link_statically(&mut cargo);
            cargo
        };
        let mut examples = cargo("build");
        examples.args(["--example", INIT, "--example", PROGRAMS, "--example", SUBJECT]);
        artifact::cargo(xtask, "programs of the guests", "build-guests", &mut examples)?;
        let mut tests = cargo("test");
        let text = artifact::cargo(
            xtask,
            "kernel tests of the guests",
            "build-guest-tests",
            tests.args(["--test", "kernel", "--no-run"]),
        )?;
        let tests = executable(&text).context("cargo does not say where the kernel tests are")?;
        let built = xtask.workspace.target.join(&toolchain.agent_target).join("debug/examples");
        let folder = xtask.workspace.target.join("vm");
        let here = folder.join("programs");
        // The tests look for their subject where cargo puts it: beside the folder that they are in.
        let places = [
            (agent, "guestscope"),
            (built.join(PROGRAMS), "programs"),
            (xtask.workspace.root.join(tests), "debug/deps/kernel"),
            (built.join(SUBJECT), "debug/examples/kernel_subject"),
        ];
        for (from, to) in &places {
            copy(from, &here.join(to))?;
        }
        let disk = folder.join("programs.ext4");
        make_disk(xtask, &here, &disk)?;
        Ok(Self { init: built.join(INIT), disk, here })
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copying {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(what)?;
    fs::copy(from, to).map(drop).with_context(what)
}

/// An ext4 file system of a folder's content, without mounting anything.
fn make_disk(xtask: &Xtask, content: &Path, disk: &Path) -> Result<()> {
    apt::need(xtask, &["e2fsprogs"])?;
    let file = File::create(disk).with_context(|| format!("file: {}", disk.display()))?;
    file.set_len(DISK_BYTES)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,root_owner=0:0", "-d"]);
    setup::command(xtask, "disk of the guests", "guest-disk", "made", make.arg(content).arg(disk)).map(drop)
}

/// The test program that `cargo test --no-run` names: `Executable tests/kernel/main.rs (target/.../kernel-0123)`.
fn executable(text: &str) -> Option<&str> {
    let line = text.lines().rfind(|line| line.trim_start().starts_with("Executable "))?;
    line.trim_end().strip_suffix(')')?.rsplit_once('(').map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn cargo_names_the_test_program() {
        let text = "   Compiling a v0.1.0 (/a)\n    Finished `test` profile\n  \
                    Executable tests/kernel/main.rs (target/x/debug/deps/kernel-0a1b)\n";
        assert_eq!(executable(text), Some("target/x/debug/deps/kernel-0a1b"));
        assert_eq!(executable("    Finished `test` profile\n"), None);
    }
}
