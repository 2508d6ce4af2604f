//! The machine that runs the lab, as it is.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::{plan::Cell, run::Programs};

/// Whether a machine of so many CPUs can be what the cell says.
pub(super) fn fits(cell: &Cell, all: u32) -> Result<()> {
    ensure!(cell.cores <= all, "this machine has {all} CPUs, not {}", cell.cores);
    ensure!(cell.pinned || cell.cores == all, "without pinning this machine has all of its {all} CPUs");
    Ok(())
}

/// The agent with its workload, tied to the first CPUs if that is wanted.
pub(super) fn command(programs: &Programs, cell: &Cell, output: &Path) -> Command {
    let mut command = if cell.pinned {
        let mut taskset = Command::new("taskset");
        taskset.arg("--cpu-list").arg(cell.cpu_list()).arg(&programs.agent);
        taskset
    } else {
        Command::new(&programs.agent)
    };
    command.args(programs.arguments(cell, output)).envs(programs.environment());
    command
}
