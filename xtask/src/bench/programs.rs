//! The programs that benchmarks run, and how.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{Xtask, command, failure::failure};

/// Programs and settings of a benchmark.
pub(crate) struct Bench<'a> {
    pub(super) xtask: &'a Xtask,
    /// The static agent.
    pub(super) agent: PathBuf,
    /// `guestscope-workloads`, with libtorch.
    pub(super) workloads: PathBuf,
    /// The example that keeps BPF programs attached while a command runs.
    pub(super) hooks: PathBuf,
    /// The example that fires edges.
    pub(super) edges: PathBuf,
    /// The example that makes phases and switches at given rates.
    pub(super) storm: PathBuf,
    /// The example that repeats the same arithmetic.
    pub(super) busy: PathBuf,
    /// The example that makes run folders.
    pub(super) made_folders: PathBuf,
    /// Rounds of each variant.
    pub(super) rounds: usize,
}

impl Bench<'_> {
    /// The folder for all files of a benchmark.
    pub(super) fn folder(&self) -> Result<PathBuf> {
        let folder = self.xtask.workspace.target.join("bench");
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The agent, with a JSON summary, as the command that runs this program.
    pub(super) fn observe(&self, name: &str, program: &Path) -> Result<Command> {
        Ok(self.observe_into(&self.folder()?.join("runs"), name, program))
    }

    /// The same with its run folder in this folder.
    pub(super) fn observe_into(&self, output: &Path, name: &str, program: &Path) -> Command {
        let mut command = Command::new(&self.agent);
        command.args(["run", "--json", "--name", name, "--output"]).arg(output).arg("--").arg(program);
        command
    }

    /// `rounds` measurements of each variant, all variants in each round, whose order rotates.
    pub(super) fn alternate<T>(
        &self,
        label: &str,
        variants: &[T],
        mut measure: impl FnMut(&T) -> Result<f64>,
    ) -> Result<Vec<Vec<f64>>> {
        let step = self.xtask.progress.step(label);
        let mut measured = vec![Vec::new(); variants.len()];
        for round in 0..self.rounds {
            step.update(&format!("round {} of {}", round + 1, self.rounds));
            for turn in 0..variants.len() {
                let variant = (turn + round) % variants.len();
                measured[variant].push(measure(&variants[variant])?);
            }
        }
        step.done(format!("{} rounds", self.rounds));
        Ok(measured)
    }
}

/// A built program that an environment variable names, to measure that one.
pub(crate) fn built(variable: &str) -> Result<Option<PathBuf>> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if path.is_file() {
        return Ok(Some(path));
    }
    let (what, hint) = (path.display(), format!("let {variable} name a program, or unset it"));
    Err(failure(format!("no such program: {what}"), hint))
}

/// Runs a command that prints one line of JSON last.
pub(super) fn json_of(command: &mut Command) -> Result<Value> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("could not start: {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rfind(|line| line.starts_with('{'));
    let line = line.with_context(|| {
        format!("no result: {name}: {}", command::tail(&String::from_utf8_lossy(&output.stderr)))
    })?;
    serde_json::from_str(line).with_context(|| format!("not understood: {name}: {line}"))
}

/// The JSON of a program and of the agent that observed it, both from the same standard output.
pub(crate) fn two_results(text: &str) -> Result<(Value, Value)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let program = values.next().context("no result of the program")??;
    let agent = values.next().context("no summary of the agent")??;
    Ok((program, agent))
}
