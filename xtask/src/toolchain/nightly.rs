//! The nightly compiler of rustup: the pinned one, or, if it cannot be had, any installed one, which is then
//! reported.

use std::process::Command;

use anyhow::Result;

use super::compiler::{Version, has_sources, rustup, sysroot};
use crate::{
    Xtask, command,
    failure::failure,
    pins::{NIGHTLY, NIGHTLY_COMMIT},
};

/// The toolchain's default name, also in agent/kernel/build.rs.
const PLAIN: &str = "nightly";

/// Name and version of the compiler, with the sources of `core`.
pub(super) fn ensure(xtask: &Xtask) -> Result<(&'static str, Version)> {
    let (name, version) = find_or_install(xtask)?;
    let label = format!("{name} with rust-src");
    if has_sources(&sysroot(&mut rustc(name))?) {
        xtask.progress.present(&label, "present");
    } else {
        rustup(xtask, &label, &["component", "add", "rust-src", "--toolchain", name])?;
    }
    Ok((name, version))
}

/// Its compiler.
pub(super) fn rustc(name: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", name, "rustc"]);
    command
}

fn version(name: &str) -> Option<Version> {
    command::text(rustc(name).arg("-vV")).as_deref().and_then(Version::parse)
}

fn find_or_install(xtask: &Xtask) -> Result<(&'static str, Version)> {
    let here = choose(version(PLAIN), || version(NIGHTLY));
    if let Some((name, version)) = here.as_ref().filter(|(_, version)| version.commit == NIGHTLY_COMMIT) {
        return Ok((*name, version.clone()));
    }
    let install = ["toolchain", "install", NIGHTLY, "--profile", "minimal", "--component", "rust-src"];
    let installed = rustup(xtask, &format!("{NIGHTLY} with rust-src"), &install);
    match (installed, version(NIGHTLY), here) {
        (Ok(()), Some(version), _) if version.commit == NIGHTLY_COMMIT => Ok((NIGHTLY, version)),
        (Ok(()), Some(version), _) => Err(failure(
            format!("{NIGHTLY} is not the compiler that is pinned: {}", version.commit),
            "do not use it; check where rustup gets its toolchains from",
        )),
        (_, _, Some((name, version))) => {
            xtask.progress.shortfall(format!(
                "{NIGHTLY} cannot be had: the BPF object is built by `{name}`, commit {}",
                version.commit.get(..9).unwrap_or(&version.commit)
            ));
            Ok((name, version))
        }
        (Err(error), ..) => Err(error),
        (Ok(()), None, None) => Err(failure(
            format!("`rustup run {NIGHTLY} rustc -vV` gives no version"),
            format!("rustup toolchain install {NIGHTLY} --force"),
        )),
    }
}

/// The plain name if it is the pinned version: then no build needs to be told. Else the pinned name, else any
/// installed one.
fn choose(
    plain: Option<Version>,
    pinned: impl FnOnce() -> Option<Version>,
) -> Option<(&'static str, Version)> {
    if let Some(version) = plain.as_ref().filter(|version| version.commit == NIGHTLY_COMMIT) {
        return Some((PLAIN, version.clone()));
    }
    let pinned = pinned().map(|version| (NIGHTLY, version));
    pinned.or_else(|| plain.map(|version| (PLAIN, version)))
}

/// The variable that tells the agent's build, if the name is not the plain one.
pub(super) fn variable(name: &'static str) -> Option<(&'static str, &'static str)> {
    (name != PLAIN).then_some(("GUESTSCOPE_NIGHTLY", name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(commit: &str) -> Version {
        Version { commit: commit.to_owned(), host: "here".to_owned(), llvm_major: 22 }
    }

    #[rstest]
    #[case::plain_is_pinned(Some(NIGHTLY_COMMIT), None, Some(PLAIN))]
    #[case::both(Some(NIGHTLY_COMMIT), Some(NIGHTLY_COMMIT), Some(PLAIN))]
    #[case::plain_is_another(Some("x"), Some(NIGHTLY_COMMIT), Some(NIGHTLY))]
    #[case::only_another(Some("x"), None, Some(PLAIN))]
    #[case::only_pinned(None, Some(NIGHTLY_COMMIT), Some(NIGHTLY))]
    #[case::none(None, None, None)]
    fn the_pinned_compiler_goes_first(
        #[case] plain: Option<&str>,
        #[case] pinned: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let chosen = choose(plain.map(of), || pinned.map(of));
        assert_eq!(chosen.map(|(name, _)| name), expected);
    }
}
