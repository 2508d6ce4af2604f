//! Debian and Ubuntu packages: finds out which are missing and installs those, and only those.
//!
//! Yields [`need`] for what a verb cannot do without and [`want`] for what it can. It changes no package
//! source and upgrades nothing that is installed; package lists are refreshed only when a package cannot be
//! found.

use std::{collections::HashSet, process::Command};

use anyhow::Result;
use nix::unistd::geteuid;

use crate::{
    Xtask,
    command::{self, LIMIT, Run},
    failure::failure,
};

/// Installs what is missing of `packages`, or fails with the command that the user may run.
pub(crate) fn need(xtask: &Xtask, packages: &[&str]) -> Result<()> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if command::find("apt-get").is_none() {
        return Err(failure(
            format!("missing programs, and no apt-get to install them: {names}"),
            "install what these Debian packages hold, then try again",
        ));
    }
    if !geteuid().is_root() {
        return Err(failure(
            format!("missing packages, and no right to install them: {names}"),
            format!("run this as root, or: sudo apt-get install {names}"),
        ));
    }
    install(xtask, &missing)
}

/// Installs what is missing of `packages` if that is possible; otherwise says what goes without them.
pub(crate) fn want(xtask: &Xtask, packages: &[&str], without: &str) {
    if let Err(error) = need(xtask, packages) {
        let first = error.to_string();
        let first = first.lines().next().unwrap_or_default();
        xtask.progress.shortfall(format!("{without}: {first}"));
    }
}

fn install(xtask: &Xtask, packages: &[&str]) -> Result<()> {
    let step = xtask.progress.step(format!("packages {}", packages.join(" ")));
    let log = xtask.log("apt");
    let run = Run { step: &step, log: &log, limit: LIMIT };
    // A fresh container has no lists at all; a machine that knows the packages keeps its own.
    let result =
        if known(packages) { run.check(&mut install_command(packages)) } else { refreshed(&run, packages) };
    // Lists may be older than the server's: it has dropped a version that they still name.
    let result = result.or_else(|_| refreshed(&run, packages));
    match result {
        Ok(_) => step.done("installed"),
        Err(error) => {
            step.failed();
            return Err(error);
        }
    }
    Ok(())
}

fn refreshed(run: &Run, packages: &[&str]) -> Result<String> {
    // Finishes what an interrupted installation left half done; otherwise it does nothing.
    run.check(
        Command::new("dpkg").args(["--configure", "--pending"]).env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    run.check(apt_get().arg("update"))?;
    run.check(&mut install_command(packages))
}

fn install_command(packages: &[&str]) -> Command {
    let mut command = apt_get();
    command.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    command
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    // Another apt-get may be at work on a machine that has just been started.
    command.args(["--quiet", "--quiet", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"]);
    command
}

/// Which of the packages are not installed, in the given order.
fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${Package} ${db:Status-Abbrev}\\n"]).args(packages);
    // It ends with status 1 if one of them is unknown, and names the others all the same.
    let output = query.output().map(|output| output.stdout).unwrap_or_default();
    let installed = installed(&String::from_utf8_lossy(&output));
    packages.iter().copied().filter(|package| !installed.contains(*package)).collect()
}

/// The installed ones of dpkg-query's lines.
fn installed(lines: &str) -> HashSet<String> {
    let fields = lines.lines().filter_map(|line| line.split_once(' '));
    fields.filter(|(_, status)| status.starts_with("ii")).map(|(name, _)| name.to_owned()).collect()
}

/// Whether the package lists of this machine hold a version of each package.
pub(crate) fn known(packages: &[&str]) -> bool {
    packages.iter().all(|package| candidate(package).is_some())
}

/// The version that apt would install.
pub(crate) fn candidate(package: &str) -> Option<String> {
    let text = command::text(Command::new("apt-cache").env("LC_ALL", "C").args(["policy", package]))?;
    parse_candidate(&text)
}

pub(crate) fn parse_candidate(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?.trim();
    (version != "(none)").then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{installed, parse_candidate};

    #[test]
    fn only_what_is_fully_installed_counts() {
        let found = installed("gcc ii \ng++ un \nmusl-tools rc \npython3 iF \n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["gcc"]);
    }

    #[rstest]
    #[case("gcc:\n  Installed: (none)\n  Candidate: 4:12.2.0-3\n  Version table:\n", Some("4:12.2.0-3"))]
    #[case("gcc:\n  Installed: (none)\n  Candidate: (none)\n", None)]
    #[case("", None)]
    fn a_candidate_is_a_version(#[case] policy: &str, #[case] expected: Option<&str>) {
        assert_eq!(parse_candidate(policy).as_deref(), expected);
    }
}
