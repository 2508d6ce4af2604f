//! The programs of a run, and what the agent is told on any platform.

use std::path::{Path, PathBuf};

use super::{gpu::Node, link, plan::Cell, shared};

/// Programs and files that every platform runs.
pub(super) struct Programs {
    pub(super) agent: PathBuf,
    pub(super) workloads: PathBuf,
    /// libtorch, if a workload needs it.
    pub(super) libtorch: Option<PathBuf>,
    /// Inputs made by the workloads.
    pub(super) inputs: PathBuf,
    /// Devices that containers get as well.
    pub(super) devices: Vec<Node>,
}

impl Programs {
    /// `run ... -- WORKLOADS COMMAND`: arguments of the agent.
    pub(super) fn arguments(&self, cell: &Cell, output: &Path) -> Vec<String> {
        arguments(cell, &self.workloads.display().to_string(), &output.display().to_string())
    }

    /// Environment of the programs.
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, String)> {
        [(shared::VARIABLE.to_owned(), self.inputs.display().to_string())].into_iter()
    }

    /// Folders of the programs and of what they read.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let parents = [&self.agent, &self.workloads].into_iter().filter_map(|path| path.parent());
        parents.map(Path::to_owned).chain(self.libtorch.clone()).chain([self.inputs.clone()])
    }
}

/// Arguments of the agent on any platform.
pub(super) fn arguments(cell: &Cell, workloads: &str, output: &str) -> Vec<String> {
    let words = ["run", "--json", "--name", &cell.workload.name, "--output", output, "--", workloads];
    let workload = cell.workload.command.iter().cloned().chain(link::options(&cell.workload));
    words.into_iter().map(str::to_owned).chain(workload).collect()
}
