//! The machine that runs the lab, without a guest or a container.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::{plan::Cell, programs::Programs};

/// Whether a machine with this many CPUs can run the cell.
pub(super) fn fits(cell: &Cell, all: u32) -> Result<()> {
    ensure!(cell.cores <= all, "this machine has {all} CPUs, not {}", cell.cores);
    ensure!(cell.pinned || cell.cores == all, "without pinning this machine has all of its {all} CPUs");
    Ok(())
}

/// The agent with its workload, pinned to the first CPUs if the cell is.
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
