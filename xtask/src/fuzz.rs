//! The verb `fuzz`: the long form of what the agent's test `hostile` does with some hundred folders.
//!
//! Good run folders are changed at random, hostile ones are built from parts, and each is given to the verbs
//! that read folders. Prints a table by verb, and for each fault the seed and number that reproduce it. It
//! needs no root.

use std::{env, io::Write as _, path::PathBuf, process::Command, time::Duration};

use anyhow::Result;

use crate::{Xtask, artifact, command::Run, toolchain::Toolchain};

/// Far beyond what ten thousand folders take on two CPUs.
const LIMIT: Duration = Duration::from_hours(6);
/// Environment variable that names another agent than the one built here.
const AGENT: &str = "GUESTSCOPE_BIN";
const FUZZER: &str = "fuzz_folders";

/// Options of the verb.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Good folders that are changed.
    pub(crate) mutated: u32,
    /// Folders made of parts.
    pub(crate) crafted: u32,
    /// The same number gives the same folders.
    pub(crate) seed: u64,
    /// `crafted:NUMBER` or `mutated:NUMBER`.
    pub(crate) only: Option<String>,
}

/// The verb. Returns whether nothing went wrong.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    let toolchain = Toolchain::ensure(xtask)?;
    let agent = match env::var_os(AGENT) {
        Some(agent) => PathBuf::from(agent),
        None => artifact::agent(xtask, &toolchain)?,
    };
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--locked", "--package", artifact::AGENT, "--example", FUZZER]);
    artifact::cargo(xtask, FUZZER, "build-fuzzer", toolchain.apply(&mut build))?;
    let Options { mutated, crafted, seed, only } = options;
    let step = xtask.progress.step(format!("{mutated} mutated folders, {crafted} crafted ones"));
    let log = xtask.log("fuzz");
    let mut fuzzer = Command::new(xtask.workspace.target.join("debug/examples").join(FUZZER));
    fuzzer.arg(agent).args([mutated.to_string(), crafted.to_string(), seed.to_string()]).args(only);
    let finished = Run { step: &step, log: &log, limit: LIMIT }.finish(&mut fuzzer)?;
    let is_well = finished.status.success() && !finished.timed_out;
    if is_well {
        step.done("no fault");
    } else {
        step.failed();
    }
    write!(std::io::stdout(), "{}", finished.text)?;
    Ok(is_well)
}
