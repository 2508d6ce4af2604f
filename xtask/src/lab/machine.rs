//! The machine that runs the lab, as it is.

use std::{path::Path, process::Command, thread};

use anyhow::{Result, ensure};

use super::{plan::Cell, run::Programs};

/// The agent with its workload, tied to the first CPUs if that is wanted.
pub(super) fn command(programs: &Programs, cell: &Cell, output: &Path) -> Result<Command> {
    let all = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    ensure!(cell.cores <= all, "this machine has {all} CPUs, not {}", cell.cores);
    ensure!(cell.pinned || cell.cores == all, "without pinning this machine has all of its {all} CPUs");
    let mut command = if cell.pinned {
        let mut taskset = Command::new("taskset");
        taskset.arg("--cpu-list").arg(cell.cpu_list()).arg(&programs.agent);
        taskset
    } else {
        Command::new(&programs.agent)
    };
    command.args(programs.arguments(cell, output)).envs(programs.environment());
    Ok(command)
}
