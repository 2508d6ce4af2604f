//! A real Prometheus for the tests: Debian's, unpacked and not installed, since the package starts a service.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    Xtask, apt,
    command::{self, Run},
    setup::{self, Wanted},
};

const PACKAGE: &str = "prometheus";

/// Path of the program: one that is there, or the package's.
pub(crate) fn ensure(xtask: &Xtask) -> Result<PathBuf> {
    if let Some(program) = command::find(PACKAGE) {
        return Ok(program);
    }
    let version = apt::candidate(PACKAGE).context("the package lists know no prometheus")?;
    let label = format!("Debian's Prometheus {version}");
    let wanted = Wanted { name: PACKAGE, inputs: &[&version], label: &label, done: "unpacked" };
    Ok(setup::obtain(xtask, wanted, unpack)?.join("prometheus"))
}

fn unpack(run: &Run, at: &Path) -> Result<()> {
    run.check(Command::new("apt-get").args(["download", PACKAGE]).current_dir(at))?;
    let whole = at.join("whole");
    for entry in fs::read_dir(at)? {
        let file = entry?.path();
        if file.extension().is_some_and(|its| its == "deb") {
            run.check(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&whole))?;
            fs::remove_file(file)?;
        }
    }
    fs::rename(whole.join("usr/bin/prometheus"), at.join("prometheus"))?;
    fs::remove_dir_all(whole).context("could not remove the unpacked package")
}
