//! Builds Jaeger from its Go module, for machines where it can be had in no other way.
//!
//! Yields the path of a binary in the cache. Every module is pinned by xtask/jaeger/go.sum; where Go is
//! missing or too old, a newer one comes as a Go module too, with its hash pinned. The machine's Go folders
//! stay as they are.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{
    Xtask, apt,
    command::{self, Run},
    failure::failure,
    pins::{GO as TOOLCHAIN, GO_SUM as TOOLCHAIN_SUM, JAEGER_SUMS as GO_SUM},
    setup::{self, Wanted},
};

const GO_MOD: &str = include_str!("../../jaeger/go.mod");
const PACKAGE: &str = "github.com/jaegertracing/jaeger/cmd/jaeger";
/// What go.mod asks for.
const LEAST_GO: (u32, u32, u32) = (1, 24, 6);

/// The binary, if it was built before.
pub(super) fn finished(xtask: &Xtask) -> Option<PathBuf> {
    Some(xtask.cache.finished("jaeger", &inputs())?.join("jaeger"))
}

/// The binary, built now if need be.
pub(super) fn ensure(xtask: &Xtask) -> Result<PathBuf> {
    if finished(xtask).is_none() && command::find("go").is_none() {
        apt::need(xtask, &["golang-go"])?;
    }
    let label = "Jaeger 2.13 from its Go module";
    let wanted = Wanted { name: "jaeger", inputs: &inputs(), label, done: "built" };
    Ok(setup::obtain(xtask, wanted, build)?.join("jaeger"))
}

fn inputs() -> [&'static str; 2] {
    [GO_MOD, GO_SUM]
}

fn build(run: &Run, at: &Path) -> Result<()> {
    let module = at.join("module");
    fs::create_dir_all(&module).with_context(|| format!("folder: {}", module.display()))?;
    crate::cache::write_whole(&module.join("go.mod"), GO_MOD.as_bytes())?;
    crate::cache::write_whole(&module.join("go.sum"), GO_SUM.as_bytes())?;
    let program = new_enough(run, at)?;
    let mut build = go(&program, at, &module);
    // Without cgo it needs no C library of a certain age, and without symbols it is a third smaller.
    build
        .args(["build", "-v", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o"])
        .arg(at.join("jaeger"))
        .arg(PACKAGE);
    run.check(build.env("CGO_ENABLED", "0"))?;
    run.check(Command::new(at.join("jaeger")).arg("version"))?;
    for folder in ["module", "go", "go-build"] {
        fs::remove_dir_all(at.join(folder)).with_context(|| format!("build folder of Jaeger: {folder}"))?;
    }
    Ok(())
}

/// The Go of this machine, or a newer one that it fetches.
fn new_enough(run: &Run, at: &Path) -> Result<PathBuf> {
    let go_here = PathBuf::from("go");
    let version =
        command::text(Command::new(&go_here).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local"));
    if version.as_deref().and_then(parse_version).is_some_and(|version| version >= LEAST_GO) {
        return Ok(go_here);
    }
    let elsewhere = at.join("toolchain");
    fs::create_dir_all(&elsewhere).with_context(|| format!("folder: {}", elsewhere.display()))?;
    // Go 1.19 wants to stand in a module even for this.
    crate::cache::write_whole(&elsewhere.join("go.mod"), b"module guestscope.local/toolchain\n")?;
    let text = run.check(go(&go_here, at, &elsewhere).args(["mod", "download", "-json", TOOLCHAIN]))?;
    let folder = toolchain_folder(&text)?;
    fs::remove_dir_all(&elsewhere).with_context(|| format!("folder: {}", elsewhere.display()))?;
    // Archives of modules carry no permissions.
    for programs in ["bin", "pkg/tool/linux_amd64"] {
        for entry in fs::read_dir(folder.join(programs)).context("Go's toolchain module")?.flatten() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(folder.join("bin/go"))
}

/// Where `go mod download -json` has put the toolchain, if its hash is the pinned one.
fn toolchain_folder(answer: &str) -> Result<PathBuf> {
    let json = answer.get(answer.find('{').unwrap_or(0)..).unwrap_or_default();
    let value: Value = serde_json::from_str(json).context("`go mod download -json` gave no JSON")?;
    let sum = value["Sum"].as_str().unwrap_or_default();
    if sum != TOOLCHAIN_SUM {
        return Err(failure(
            format!("Go's toolchain module has another hash than the pinned one: {sum}"),
            "do not use it; check what stands between this machine and the Go module proxy",
        ));
    }
    Ok(value["Dir"].as_str().context("`go mod download -json` names no folder")?.into())
}

/// A go command whose downloads and build results stay below `at`.
fn go(program: &Path, at: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    // go.sum and the pinned hash say what is right; the checksum database need not be reachable.
    command.env("GOSUMDB", "off").env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local");
    command.env("GOPATH", at.join("go")).env("GOCACHE", at.join("go-build")).env_remove("GOMODCACHE");
    // Objects of a linker's size do not belong into a /tmp that may be memory.
    command.env("GOTMPDIR", at.join("module"));
    command
}

/// `go1.25.5` and the like; what follows the numbers (`rc1`, ` X:experiment`) is left away.
fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let numbers: String =
        text.strip_prefix("go")?.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let mut numbers = numbers.split('.').map(|n| n.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{GO_MOD, GO_SUM, LEAST_GO, TOOLCHAIN_SUM, parse_version, toolchain_folder};

    #[rstest]
    #[case("go1.19.8", Some((1, 19, 8)))]
    #[case("go1.26", Some((1, 26, 0)))]
    #[case("go1.24rc1", Some((1, 24, 0)))]
    #[case("go1.25.5 X:nocoverageredesign", Some((1, 25, 5)))]
    #[case("devel +abc", None)]
    fn versions_of_go_are_read(#[case] text: &str, #[case] expected: Option<(u32, u32, u32)>) {
        assert_eq!(parse_version(text), expected);
    }

    #[test]
    fn a_toolchain_with_another_hash_is_refused() {
        let answer = |sum: &str| format!("go: downloading\n{{\"Dir\": \"/go\", \"Sum\": \"{sum}\"}}\n");
        assert_eq!(toolchain_folder(&answer(TOOLCHAIN_SUM)).unwrap().to_str(), Some("/go"));
        assert!(toolchain_folder(&answer("h1:other")).is_err());
        assert!(toolchain_folder("").is_err());
    }

    #[test]
    fn the_module_is_pinned_and_asks_for_the_go_that_is_checked() {
        let (major, minor, patch) = LEAST_GO;
        assert!(GO_MOD.lines().any(|line| line == format!("go {major}.{minor}.{patch}")));
        assert!(GO_MOD.contains("github.com/jaegertracing/jaeger v1.76.0"));
        assert!(GO_SUM.contains("github.com/jaegertracing/jaeger v1.76.0 h1:"));
    }
}
