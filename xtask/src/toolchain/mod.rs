//! What it takes to build the BPF object and the static agent: a compiler that may build `core`, its sources,
//! bpf-linker, a musl target, a C compiler.
//!
//! Yields [`Toolchain`]. bpf-linker links against the very LLVM that the compiler brings, so the versions
//! cannot differ and no LLVM package is needed. It goes into the cache; a bpf-linker of the machine is left
//! alone.

mod compiler;
mod nightly;

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use self::compiler::{Version, has_sources, rustup, sysroot};
use crate::{
    Xtask, apt,
    command::{self, Run},
    failure::failure,
    pins::{self, BPF_LINKER, BPF_LINKER_SHA256},
    setup::{self, Wanted},
};

/// The LLVM versions that this bpf-linker has a feature for.
const LLVM_MAJORS: std::ops::RangeInclusive<u32> = 21..=23;

/// The compilers, ready for use.
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// PATH with bpf-linker in front.
    path: OsString,
    builder: Builder,
    /// The target of the static agent.
    pub(crate) agent_target: String,
}

/// Which compiler builds the BPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Builder {
    /// `rustup run` with a nightly of this name.
    Nightly(&'static str),
    /// The one on PATH, told to accept what only nightly accepts.
    Bootstrap,
}

impl Toolchain {
    /// Finds or installs everything.
    pub(crate) fn ensure(xtask: &Xtask) -> Result<Self> {
        programs(xtask)?;
        let (builder, version) = if command::find("rustup").is_some() {
            let (name, version) = nightly::ensure(xtask)?;
            (Builder::Nightly(name), version)
        } else {
            (Builder::Bootstrap, distribution(xtask)?)
        };
        let agent_target = static_target(xtask, builder, &version)?;
        let linker = bpf_linker(xtask, builder, &version)?;
        let old = env::var_os("PATH").unwrap_or_default();
        let folders = linker.into_iter().chain(env::split_paths(&old));
        let path = env::join_paths(folders).context("PATH")?;
        Ok(Self { path, builder, agent_target })
    }

    /// Gives a command what it needs to find these tools.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match self.builder {
            Builder::Bootstrap => drop(command.env("RUSTC_BOOTSTRAP", "1")),
            Builder::Nightly(name) => drop(command.envs(nightly::variable(name))),
        }
        command.env("PATH", &self.path)
    }

    /// Gives a cargo command that builds the agent the options to link it statically.
    pub(crate) fn link_statically<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if !self.agent_target.ends_with("-musl") {
            command.env("RUSTFLAGS", "-C target-feature=+crt-static");
        }
        self.apply(command)
    }

    /// Cargo of the compiler that builds for the BPF target.
    pub(crate) fn bpf_cargo(&self, xtask: &Xtask) -> Command {
        let mut command = match self.builder {
            Builder::Nightly(name) => {
                let mut command = Command::new("rustup");
                command.args(["run", name, "cargo"]).current_dir(&xtask.workspace.root);
                command
            }
            Builder::Bootstrap => xtask.workspace.cargo(),
        };
        self.apply(&mut command);
        command
    }

    /// The standard library for another target than the host's.
    pub(crate) fn need_target(&self, xtask: &Xtask, target: &str) -> Result<()> {
        if target_library(xtask, self.builder, target)? {
            return Ok(());
        }
        Err(failure(
            format!("no standard library for {target}: this compiler is the distribution's"),
            "install rustup",
        ))
    }

    /// Whether the compiler for the BPF target has this component beside it, clippy or miri; adds it if
    /// rustup can.
    pub(crate) fn nightly_has(&self, xtask: &Xtask, component: &str) -> bool {
        let mut ask = self.bpf_cargo(xtask);
        ask.args([component, "--version"]);
        if command::succeeds(&mut ask) {
            return true;
        }
        let Builder::Nightly(name) = self.builder else { return false };
        let add = ["component", "add", component, "--toolchain", name];
        rustup(xtask, &format!("{component} for {name}"), &add).is_ok()
    }
}

/// rustfmt and clippy for the compiler of the host.
pub(crate) fn lints(xtask: &Xtask) -> Result<()> {
    for (program, debian) in [("fmt", "rustfmt-web"), ("clippy", "rust-web-clippy")] {
        let missing =
            |xtask: &Xtask| !command::succeeds(xtask.workspace.cargo().args([program, "--version"]));
        if !missing(xtask) {
            continue;
        }
        if command::find("rustup").is_some() {
            let component = if program == "fmt" { "rustfmt" } else { program };
            rustup(xtask, component, &["component", "add", component])?;
        } else {
            apt::need(xtask, &[debian])?;
        }
    }
    Ok(())
}

/// Programs that any of the builds calls.
fn programs(xtask: &Xtask) -> Result<()> {
    let needs = [("cc", "gcc"), ("c++", "g++"), ("musl-gcc", "musl-tools")];
    let missing: Vec<&str> = needs
        .iter()
        .filter(|(program, _)| command::find(program).is_none())
        .map(|&(_, package)| package)
        .collect();
    if missing.is_empty() {
        xtask.progress.present("C compilers", "present");
        return Ok(());
    }
    apt::need(xtask, &missing)
}

/// The compiler of the distribution, with its sources.
fn distribution(xtask: &Xtask) -> Result<Version> {
    let text = command::text(Command::new("rustc").arg("-vV"));
    let version = text.as_deref().and_then(Version::parse).ok_or_else(|| {
        failure(
            "no rustup, and `rustc -vV` gives no version",
            "install rustup, or Debian's rustc-web and cargo-web",
        )
    })?;
    if has_sources(&sysroot(&mut Command::new("rustc"))?) {
        xtask.progress.present("compiler of the distribution with its sources", "present");
    } else {
        // The package of the sources follows the name of the compiler's: rustc-web has rust-web-src.
        let web = command::succeeds(Command::new("dpkg-query").args(["--show", "rustc-web"]));
        apt::need(xtask, &[if web { "rust-web-src" } else { "rust-src" }])?;
    }
    xtask.progress.shortfall(
        "no rustup here: the BPF object is built by the distribution's compiler, as a nightly one",
    );
    Ok(version)
}

/// The target for which the agent can be linked without shared libraries: musl if its standard library is
/// available, else the host's.
fn static_target(xtask: &Xtask, builder: Builder, version: &Version) -> Result<String> {
    let machine = version.host.split('-').next().unwrap_or_default();
    let target = format!("{machine}-unknown-linux-musl");
    if target_library(xtask, builder, &target)? {
        return Ok(target);
    }
    xtask.progress.shortfall(format!(
        "no standard library for {target}: the static agent is linked with glibc instead"
    ));
    Ok(version.host.clone())
}

/// The standard library for a target, for the compiler of the host; added if rustup can. Whether it is there.
fn target_library(xtask: &Xtask, builder: Builder, target: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    let folder =
        sysroot(rustc.current_dir(&xtask.workspace.root))?.join("lib/rustlib").join(target).join("lib");
    if folder.is_dir() {
        xtask.progress.present(&format!("target {target}"), "present");
        return Ok(true);
    }
    if matches!(builder, Builder::Nightly(_)) {
        rustup(xtask, &format!("target {target}"), &["target", "add", target])?;
        return Ok(true);
    }
    Ok(false)
}

/// The folder of a bpf-linker that uses the LLVM of the compiler; nothing if the machine's own has to do.
fn bpf_linker(xtask: &Xtask, builder: Builder, version: &Version) -> Result<Option<PathBuf>> {
    let major = version.llvm_major;
    if !LLVM_MAJORS.contains(&major) {
        return Err(failure(
            format!("bpf-linker {BPF_LINKER} cannot use the LLVM of this compiler: {major}"),
            format!("the pinned one will do: rustup toolchain install {}", pins::NIGHTLY),
        ));
    }
    let mut rustc = match builder {
        Builder::Nightly(name) => nightly::rustc(name),
        Builder::Bootstrap => Command::new("rustc"),
    };
    let rustc = sysroot(&mut rustc)?.join("bin/rustc");
    let Some((soname, library)) = llvm_of(&rustc) else {
        if command::find("bpf-linker").is_some() {
            xtask
                .progress
                .shortfall("this compiler has no LLVM library of its own: the machine's bpf-linker is used");
            return Ok(None);
        }
        return Err(failure(
            format!("this compiler has no LLVM library of its own: {}", rustc.display()),
            format!("install bpf-linker {BPF_LINKER} for LLVM {major}, then try again"),
        ));
    };
    let library_name = library.to_string_lossy();
    let inputs = [BPF_LINKER, &version.commit, &library_name];
    // Its own entry, because the linker keeps this address in itself.
    let llvm = xtask.cache.ensure("llvm", &inputs, |at| link_folder(&at.join("lib"), &soname, &library))?;
    let label = format!("bpf-linker {BPF_LINKER} with LLVM {major}");
    let wanted = Wanted { name: "bpf-linker", inputs: &inputs, label: &label, done: "built" };
    let folder = setup::obtain(xtask, wanted, |run, at| build_bpf_linker(run, at, major, &llvm))?;
    Ok(Some(folder.join("bin")))
}

fn build_bpf_linker(run: &Run, at: &Path, llvm_major: u32, llvm: &Path) -> Result<()> {
    let mut install = Command::new("cargo");
    install.args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked", "--no-default-features"]);
    install.args(["--features", &format!("llvm-{llvm_major}"), "--no-track", "--force"]);
    install.arg("--root").arg(at).arg("--target-dir").arg(at.join("build"));
    // Its work is LLVM's; symbols for debugging would make up most of it.
    install.env("CARGO_PROFILE_RELEASE_DEBUG", "false").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    run.check(install.env("LLVM_PREFIX", llvm).current_dir(at))?;
    pins::check_crate("bpf-linker", BPF_LINKER, BPF_LINKER_SHA256)?;
    run.check(Command::new(at.join("bin/bpf-linker")).arg("--version"))?;
    fs::remove_dir_all(at.join("build")).context("build folder of bpf-linker")
}

/// Name and place of the LLVM library that a compiler loads.
fn llvm_of(rustc: &Path) -> Option<(String, PathBuf)> {
    parse_llvm(&command::text(Command::new("ldd").arg(rustc))?)
}

fn parse_llvm(ldd: &str) -> Option<(String, PathBuf)> {
    ldd.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.split(" (").next()?.trim();
        (name.starts_with("libLLVM") && path.starts_with('/')).then(|| (name.to_owned(), path.into()))
    })
}

/// A folder in which a linker finds the library as `-lLLVM` and a program finds it by its name.
fn link_folder(folder: &Path, soname: &str, library: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("folder: {}", folder.display()))?;
    for name in ["libLLVM.so", soname] {
        let link = folder.join(name);
        if link.symlink_metadata().is_err() {
            symlink(library, &link).with_context(|| format!("link: {}", link.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::{Version, link_folder, parse_llvm};

    #[test]
    fn the_version_names_host_and_llvm() {
        let text = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nbinary: rustc\ncommit-hash: e50aa6fba4e6\n\
                    host: x86_64-unknown-linux-gnu\nrelease: 1.97.0-nightly\nLLVM version: 22.1.4";
        let host = "x86_64-unknown-linux-gnu".to_owned();
        assert_eq!(
            Version::parse(text),
            Some(Version { commit: "e50aa6fba4e6".to_owned(), host, llvm_major: 22 })
        );
        assert_eq!(Version::parse("rustc 1.63.0"), None);
    }

    #[rstest]
    #[case::rustup(
        "\tlinux-vdso.so.1 (0x1)\n\tlibLLVM.so.22.1-rust-1.97.0-nightly => /r/bin/../lib/libLLVM.so.22.1-rust-1.97.0-nightly (0x7)\n",
        Some(("libLLVM.so.22.1-rust-1.97.0-nightly", "/r/bin/../lib/libLLVM.so.22.1-rust-1.97.0-nightly"))
    )]
    #[case::debian("\tlibLLVM.so.22.1 => /lib/x86_64-linux-gnu/libLLVM.so.22.1 (0x7)", Some(("libLLVM.so.22.1", "/lib/x86_64-linux-gnu/libLLVM.so.22.1")))]
    #[case::inside("\tlibc.so.6 => /lib/libc.so.6 (0x7)", None)]
    #[case::broken("\tlibLLVM.so.22.1 => not found", None)]
    fn the_compilers_llvm_is_found(#[case] ldd: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(parse_llvm(ldd), expected.map(|(name, path)| (name.to_owned(), path.into())));
    }

    #[test]
    fn the_library_has_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("real");
        fs::write(&library, "x").unwrap();
        let links = folder.path().join("lib");
        link_folder(&links, "libLLVM.so.22.1", &library).unwrap();
        link_folder(&links, "libLLVM.so.22.1", &library).unwrap();
        assert_eq!(fs::read_to_string(links.join("libLLVM.so")).unwrap(), "x");
        assert_eq!(fs::read_to_string(links.join("libLLVM.so.22.1")).unwrap(), "x");
    }
}
