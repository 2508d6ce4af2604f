//! What comes into the project by dependencies: cargo-deny, with `deny.toml`.
//!
//! Yields the items of `check`. The program is built once, by the host's compiler and without optimisation: a
//! minute on two CPUs, and a second for each check.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use crate::{
    Xtask,
    command::Run,
    item::{self, Item, Verdict},
    pins::{self, CARGO_DENY, CARGO_DENY_SHA256},
    setup::{self, Wanted},
};

const CRATES: &str = "licences, sources and duplicates of dependencies";
const ADVISORIES: &str = "advisories about dependencies";
/// The database of advisories takes some seconds; what does not answer is not there.
const PATIENCE: Duration = Duration::from_mins(1);
/// Exit bit of cargo-deny for advisories that apply; without it the check itself did not come about.
const FOUND: i32 = 1;

/// Runs them.
pub(crate) fn items(xtask: &Xtask) -> Vec<Item> {
    let program = match ensure(xtask) {
        Ok(folder) => folder.join("bin/cargo-deny"),
        Err(error) => {
            let not_run = |name| Item { name, verdict: Verdict::NotRun(format!("  not run: {error:#}")) };
            return vec![not_run(CRATES), not_run(ADVISORIES)];
        }
    };
    let deny = || {
        let mut deny = Command::new(&program);
        deny.arg("--locked").current_dir(&xtask.workspace.root);
        deny
    };
    let mut crates = deny();
    crates.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    vec![item::item(xtask, CRATES, &mut crates), advisories(xtask, deny())]
}

/// The database is not on any registry of crates, and not everybody reaches it.
fn advisories(xtask: &Xtask, mut deny: Command) -> Item {
    let step = xtask.progress.step(ADVISORIES);
    let log = xtask.log("check-advisories");
    deny.args(["check", "--hide-inclusion-graph", "advisories"]);
    let run = Run { step: &step, log: &log, limit: PATIENCE };
    let verdict = match run.finish(&mut deny) {
        Ok(finished) if finished.status.success() => Verdict::Passed,
        Ok(finished) if finished.status.code() == Some(FOUND) && finished.text.contains("error[") => {
            Verdict::Failed(format!(
                "{}\n  whole output: {}",
                crate::command::tail(&finished.text),
                log.display()
            ))
        }
        Ok(_) => Verdict::NotRun("  not run: no database: it cannot be fetched from here".to_owned()),
        Err(error) => Verdict::NotRun(format!("  not run: {error:#}")),
    };
    match &verdict {
        Verdict::Passed => step.done("ok"),
        Verdict::Failed(_) => step.failed(),
        Verdict::NotRun(_) => step.done("not run: no database"),
    }
    Item { name: ADVISORIES, verdict }
}

fn ensure(xtask: &Xtask) -> Result<std::path::PathBuf> {
    let label = format!("cargo-deny {CARGO_DENY}");
    let wanted = Wanted { name: "cargo-deny", inputs: &[CARGO_DENY], label: &label, done: "built" };
    setup::obtain(xtask, wanted, build)
}

fn build(run: &Run, at: &Path) -> Result<()> {
    let mut install = Command::new("cargo");
    install.args(["install", "cargo-deny", "--version", CARGO_DENY, "--locked", "--no-track", "--force"]);
    install.arg("--root").arg(at).arg("--target-dir").arg(at.join("build")).current_dir(at);
    for (key, value) in [("DEBUG", "false"), ("OPT_LEVEL", "0"), ("LTO", "off"), ("CODEGEN_UNITS", "16")] {
        install.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    run.check(&mut install)?;
    pins::check_crate("cargo-deny", CARGO_DENY, CARGO_DENY_SHA256)?;
    run.check(Command::new(at.join("bin/cargo-deny")).arg("--version"))?;
    fs::remove_dir_all(at.join("build")).context("build folder of cargo-deny")
}
