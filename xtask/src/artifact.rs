//! The programs that demonstrations and tests run: the static agent, the workloads with libtorch, and those
//! of them that need none; and the tests of the host themselves.
//!
//! Yields paths and commands. Each has one fixed choice of packages and features, so that cargo builds each
//! crate once for all verbs. It does not run them.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    Xtask,
    cache::hash,
    command::{LIMIT, Run},
    libtorch::Libtorch,
    pytorch::{self, Pytorch},
    toolchain::Toolchain,
};

pub(crate) use crate::workspace::WORKLOADS;

pub(crate) const AGENT: &str = "guestscope";
/// Builds the static agent.
pub(crate) fn agent(xtask: &Xtask, toolchain: &Toolchain) -> Result<PathBuf> {
    let (target, profile) = (&toolchain.agent_target, xtask.profile.of_agent());
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--profile", profile, "--locked", "--package", AGENT, "--target", target]);
    toolchain.link_statically(&mut build);
    cargo(xtask, &format!("{AGENT} for {target}"), "build-agent", &mut build)?;
    Ok(xtask.workspace.target.join(target).join(profile).join(AGENT))
}

/// Builds the workloads, with libtorch if it could be had.
pub(crate) fn workloads(xtask: &Xtask, libtorch: Option<&Libtorch>) -> Result<PathBuf> {
    let mut build = workloads_cargo(xtask, "build", libtorch);
    cargo(xtask, WORKLOADS, "build-workloads", &mut build)?;
    Ok(xtask.workspace.target.join(xtask.profile.of_workloads()).join(WORKLOADS))
}

/// Builds the workloads against the PyTorch of this machine, in a folder for that one: the others stay built.
pub(crate) fn cuda_workloads(xtask: &Xtask, pytorch: &Pytorch) -> Result<PathBuf> {
    let identity = pytorch.identity();
    let identity = hash(&identity.each_ref().map(String::as_str));
    let target = xtask.workspace.target.join("cuda").join(&identity[..8]);
    let mut build = workloads_cargo(xtask, "build", None);
    build.args(["--features", "torch", "--target-dir"]).arg(&target);
    cargo(xtask, &format!("{WORKLOADS} for CUDA"), "build-workloads-cuda", pytorch.apply(&mut build))?;
    let program = target.join(xtask.profile.of_workloads()).join(WORKLOADS);
    pytorch::check_linked(xtask, &program)?;
    Ok(program)
}

/// Builds the tests of the workloads, and the workloads with them. Gives the latter: [`workloads`] would
/// build much of them again, without what the tests' libraries want of those that both use.
pub(crate) fn tested_workloads(xtask: &Xtask, libtorch: Option<&Libtorch>) -> Result<PathBuf> {
    let mut build = workloads_cargo(xtask, "test", libtorch);
    cargo(xtask, "tests of the workloads", "build-workload-tests", build.arg("--no-run"))?;
    Ok(xtask.workspace.target.join(xtask.profile.of_workloads()).join(WORKLOADS))
}

/// A cargo command on the workloads; always in the same profile, in which the C++ part of tch is built once.
pub(crate) fn workloads_cargo(xtask: &Xtask, verb: &str, libtorch: Option<&Libtorch>) -> Command {
    let mut command = xtask.workspace.cargo();
    command.args([verb, "--profile", xtask.profile.of_workloads(), "--locked", "--package", WORKLOADS]);
    if let Some(libtorch) = libtorch {
        libtorch.apply(&mut command).args(["--features", "torch"]);
    }
    command
}

/// Builds the workloads that need no libtorch, the stalls above all, for machines that have no library at
/// all.
pub(crate) fn static_workloads(xtask: &Xtask, toolchain: &Toolchain) -> Result<PathBuf> {
    let (target, profile) = (&toolchain.agent_target, xtask.profile.of_static_workloads());
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--profile", profile, "--locked", "--package", WORKLOADS, "--target", target]);
    toolchain.link_statically(&mut build);
    cargo(xtask, &format!("{WORKLOADS} for {target}"), "build-static-workloads", &mut build)?;
    Ok(xtask.workspace.target.join(target).join(profile).join(WORKLOADS))
}

/// `cargo VERB` on every package but the workloads, for whatever is built with debug assertions; `features`
/// is the same in every call of a verb.
pub(crate) fn host_cargo(xtask: &Xtask, toolchain: &Toolchain, verb: &str, features: &[String]) -> Command {
    let mut command = xtask.workspace.cargo();
    command.args([
        verb,
        "--locked",
        "--workspace",
        "--exclude",
        WORKLOADS,
        "--exclude",
        crate::workspace::FUZZ,
    ]);
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    toolchain.apply(&mut command);
    command
}

/// Runs a cargo build as a step; gives what it wrote.
pub(crate) fn cargo(xtask: &Xtask, label: &str, log: &str, command: &mut Command) -> Result<String> {
    let step = xtask.progress.step(label);
    let log = xtask.log(log);
    match (Run { step: &step, log: &log, limit: LIMIT }).check(command) {
        Ok(text) => {
            let built = text.lines().any(|line| line.trim_start().starts_with("Compiling"));
            step.done(if built { "built" } else { "up to date" });
            Ok(text)
        }
        Err(error) => {
            step.failed();
            Err(error)
        }
    }
}
