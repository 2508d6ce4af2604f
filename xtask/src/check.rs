//! The verb `check`: formatting, lints on the host and on the BPF target, the rules of `tidy`, spelling,
//! dependencies, undefined behaviour where memory is shared, and hostile bytes for everything that decodes
//! some.
//!
//! Yields one outcome per item, each run whatever became of the others. It corrects nothing.

use std::process::Command;

use anyhow::Result;

use crate::{
    Xtask,
    arm64::Arm64,
    artifact::{self, WORKLOADS},
    decoders, deny,
    item::{Item, Verdict, item},
    libtorch::Libtorch,
    models, tidy,
    toolchain::{self, Toolchain},
    typos,
};

/// The crates with code of their own for arm64.
const ARM64: [&str; 7] = [
    "guestscope-base",
    "guestscope-contract",
    "guestscope-kernel",
    "guestscope-marker",
    "guestscope-model",
    "guestscope-platform",
    "guestscope-sources",
];

/// The verb: sets up what the lints need, runs everything, fails if anything is wrong.
pub(crate) fn verb(xtask: &Xtask) -> Result<bool> {
    let toolchain = Toolchain::ensure(xtask)?;
    let libtorch = Libtorch::ensure(xtask)
        .inspect_err(|error| {
            xtask.progress.shortfall(format!("workloads are checked without libtorch: {error}"));
        })
        .ok();
    let items = run(xtask, &toolchain, libtorch.as_ref())?;
    for item in &items {
        if let Verdict::Failed(text) | Verdict::NotRun(text) = &item.verdict {
            xtask.progress.say(&format!("\n{}:\n{text}", item.name));
        }
    }
    Ok(!items.iter().any(|item| matches!(item.verdict, Verdict::Failed(_))))
}

/// Runs every item.
pub(crate) fn run(xtask: &Xtask, toolchain: &Toolchain, libtorch: Option<&Libtorch>) -> Result<Vec<Item>> {
    toolchain::lints(xtask)?;
    let mut items = vec![tidy_item(xtask)];
    let mut fmt = xtask.workspace.cargo();
    items.push(item(xtask, "fmt", fmt.args(["fmt", "--all", "--check"])));
    // Early: the verb `test` builds the workloads beside this, in the same folder, but not at first.
    let mut workloads = artifact::workloads_cargo(xtask, "clippy", libtorch);
    items.push(item(xtask, "clippy of the workloads", deny_warnings(workloads.arg("--all-targets"))));
    let mut host = xtask.workspace.cargo();
    host.args(["clippy", "--locked", "--workspace", "--exclude", WORKLOADS, "--all-targets"]);
    // The features under which the tests are built, so that these are linted too.
    let features = xtask.workspace.test_features();
    if !features.is_empty() {
        host.args(["--features", &features.join(",")]);
    }
    items.push(item(xtask, "clippy", deny_warnings(toolchain.apply(&mut host))));
    items.push(bpf_item(xtask, toolchain));
    items.push(arm64_item(xtask, toolchain));
    items.push(typos::item(xtask));
    items.extend(deny::items(xtask));
    items.push(models::loom(xtask, toolchain));
    items.push(models::miri(xtask, toolchain));
    items.push(decoders::item(xtask));
    Ok(items)
}

fn deny_warnings(command: &mut Command) -> &mut Command {
    command.args(["--", "--deny", "warnings"])
}

fn tidy_item(xtask: &Xtask) -> Item {
    let step = xtask.progress.step("tidy");
    let complaint = match tidy::complaints(&xtask.workspace.root) {
        Ok(complaints) if complaints.is_empty() => None,
        Ok(complaints) => Some(complaints.iter().map(|c| format!("  {c}")).collect::<Vec<_>>().join("\n")),
        Err(error) => Some(format!("  {error:#}")),
    };
    let Some(complaint) = complaint else {
        step.done("ok");
        return Item { name: "tidy", verdict: Verdict::Passed };
    };
    step.failed();
    Item { name: "tidy", verdict: Verdict::Failed(complaint) }
}

/// The programs that run in the kernel are seen by no build for the host.
fn bpf_item(xtask: &Xtask, toolchain: &Toolchain) -> Item {
    let clippy = toolchain.nightly_has(xtask, "clippy");
    let mut command = toolchain.bpf_cargo(xtask);
    command.args([
        if clippy { "clippy" } else { "check" },
        "--locked",
        "--package",
        "guestscope-ebpf",
        "--bins",
    ]);
    command.args(["--target", "bpfel-unknown-none", "-Z", "build-std=core"]);
    command.arg("--target-dir").arg(xtask.workspace.target.join("bpf-check"));
    // Warnings are shown and do not fail it: a later nightly may have new lints.
    item(xtask, if clippy { "clippy on the BPF target" } else { "check on the BPF target" }, &mut command)
}

/// The crates that differ on arm64, as they are there. The object is the same one, and `cargo xtask vm`
/// builds the rest: its libraries would take as long here as all others together.
fn arm64_item(xtask: &Xtask, toolchain: &Toolchain) -> Item {
    let name = "clippy for arm64";
    let arm64 = match Arm64::ensure(xtask, toolchain) {
        Ok(arm64) => arm64,
        Err(error) => {
            xtask.progress.shortfall(format!("nothing is checked for arm64: {error}"));
            return Item { name, verdict: Verdict::NotRun(format!("  not run: {error:#}")) };
        }
    };
    let mut command = arm64.cargo("clippy");
    command.args(ARM64.iter().flat_map(|package| ["--package", package])).arg("--all-targets");
    item(xtask, name, deny_warnings(&mut command))
}
