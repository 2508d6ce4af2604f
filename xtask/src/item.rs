//! One item of `check`, and its outcome.

use std::process::Command;

use crate::{
    Xtask,
    command::{self, Run},
};

/// One item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
}

/// Outcome of an item.
#[derive(Debug)]
pub(crate) enum Verdict {
    Passed,
    /// It failed, with the reason.
    Failed(String),
    /// It could not be run, with the reason.
    NotRun(String),
}

/// Runs one command as an item: it passes if the command ends with 0.
pub(crate) fn item(xtask: &Xtask, name: &'static str, command: &mut Command) -> Item {
    let step = xtask.progress.step(name);
    let log = xtask.log(&format!("check-{}", name.replace(' ', "-")));
    match (Run { step: &step, log: &log, limit: command::LIMIT }).finish(command) {
        Ok(finished) if finished.status.success() => {
            let warnings = finished.text.lines().filter(|line| line.starts_with("warning: ")).count();
            step.done(if warnings > 0 {
                format!("ok, {warnings} warnings in {}", log.display())
            } else {
                "ok".into()
            });
            Item { name, verdict: Verdict::Passed }
        }
        Ok(finished) => {
            step.failed();
            let tail = command::tail(&finished.text);
            let complaint = format!("{tail}\n  whole output: {}", log.display());
            Item { name, verdict: Verdict::Failed(complaint) }
        }
        Err(error) => {
            step.failed();
            Item { name, verdict: Verdict::Failed(format!("  {error:#}")) }
        }
    }
}
