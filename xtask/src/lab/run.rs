//! One run of one cell: fresh processes, a fresh container, and a virtual machine that is fresh or stays up.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    container::Container,
    link::{self, Link},
    machine,
    plan::{Cell, Kind},
    podman::Podman,
    shared,
    vm::Guests,
};
use crate::{
    Xtask,
    command::{self, Finished, Run},
    progress::Step,
};

/// Beside the workload's own limit: the start of a guest, of the agent, and the closing of the folder.
const AROUND: Duration = Duration::from_mins(1);

/// What runs everywhere.
pub(super) struct Programs {
    pub(super) agent: PathBuf,
    pub(super) workloads: PathBuf,
    /// What the workloads are linked with beside the system's libraries.
    pub(super) libtorch: Option<PathBuf>,
    /// What the workloads have made.
    pub(super) inputs: PathBuf,
}

impl Programs {
    /// `run ... -- WORKLOADS COMMAND`, behind the agent's path.
    pub(super) fn arguments(&self, cell: &Cell, output: &Path) -> Vec<String> {
        arguments(cell, &self.workloads.display().to_string(), &output.display().to_string())
    }

    /// What they are told.
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, String)> {
        [(shared::VARIABLE.to_owned(), self.inputs.display().to_string())].into_iter()
    }

    /// Folders in which they and what they read lie.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let parents = [&self.agent, &self.workloads].into_iter().filter_map(|path| path.parent());
        parents.map(Path::to_owned).chain(self.libtorch.clone()).chain([self.inputs.clone()])
    }
}

/// What the agent is told, on whatever platform.
pub(super) fn arguments(cell: &Cell, workloads: &str, output: &str) -> Vec<String> {
    let words = ["run", "--json", "--name", &cell.workload.name, "--output", output, "--", workloads];
    let workload = cell.workload.command.iter().cloned().chain(link::options(&cell.workload));
    words.into_iter().map(str::to_owned).chain(workload).collect()
}

/// Runs it; where its run folder is, below `output`, which has nothing of it if it fails or never ends: it is made
/// in `staging`, which is emptied before.
pub(super) fn run(
    xtask: &Xtask,
    step: &Step,
    (programs, guests): (&Programs, &mut Option<Guests>),
    (cell, is_fresh): (&Cell, bool),
    (staging, output): (&Path, &Path),
) -> Result<PathBuf> {
    let what = || format!("folder: {}", staging.display());
    if staging.exists() {
        fs::remove_dir_all(staging).with_context(what)?;
    }
    fs::create_dir_all(staging).with_context(what)?;
    match (cell.kind.is_guest(), guests) {
        (true, Some(guests)) => guests.run(xtask, step, cell, is_fresh, staging)?,
        (true, None) => bail!("no virtual machine was prepared"),
        (false, _) => in_staging(xtask, step, programs, cell, staging)?,
    }
    let made = folders(staging)?;
    let [made] = made.as_slice() else { bail!("{} run folders instead of one", made.len()) };
    move_to(made, output)
}

/// Under its own name, or with a number behind it: two guests whose clocks begin alike name their folders alike.
pub(super) fn move_to(made: &Path, output: &Path) -> Result<PathBuf> {
    let what = || format!("moving {} to {}", made.display(), output.display());
    fs::create_dir_all(output).with_context(what)?;
    let name = made.file_name().context("a folder has a name")?.to_string_lossy().into_owned();
    let numbered = (2..).map(|number| output.join(format!("{name}-{number}")));
    let mut names = std::iter::once(output.join(&name)).chain(numbered);
    let to = names.find(|path| !path.exists()).context("a free name")?;
    fs::rename(made, &to).with_context(what)?;
    Ok(to)
}

fn in_staging(xtask: &Xtask, step: &Step, programs: &Programs, cell: &Cell, output: &Path) -> Result<()> {
    let limit = Duration::from_secs(cell.workload.limit_s) + AROUND;
    let log = xtask.log("lab");
    let run = Run { step, log: &log, limit };
    let bundle = xtask.workspace.target.join("lab").join(".bundle");
    let _link = Link::of(&cell.workload)?;
    let finished = match cell.kind {
        Kind::Machine => run.finish(&mut machine::command(programs, cell, output)?),
        Kind::Container => {
            let container = Container::prepare(programs, cell, output, bundle)?;
            run.finish(&mut container.command())
        }
        Kind::Podman => {
            let podman = Podman::prepare(programs, cell, output, &bundle)?;
            run.finish(&mut podman.command())
        }
        Kind::Vm | Kind::Microvm | Kind::ContainerInVm => bail!("runs in a guest: {}", cell.name()),
    }?;
    outcome(&finished, limit)
}

fn outcome(finished: &Finished, limit: Duration) -> Result<()> {
    if finished.timed_out {
        bail!("not over after {} s", limit.as_secs());
    }
    if !finished.status.success() {
        let tail = command::tail(&finished.text);
        bail!("{}: {}", finished.status, tail.lines().next_back().unwrap_or_default().trim());
    }
    Ok(())
}

/// Everything directly in a folder.
pub(super) fn folders(output: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("folder: {}", output.display());
    let entries = fs::read_dir(output).with_context(what)?;
    entries.map(|entry| entry.map(|entry| entry.path()).with_context(what)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Programs, arguments};
    use crate::lab::plan::{Cell, Kind, Workload};

    pub(in crate::lab) fn cell(kind: Kind, pinned: bool) -> Cell {
        let workload = Workload {
            name: "w".to_owned(),
            command: ["infer", "loop"].map(str::to_owned).into(),
            torch: false,
            inputs: false,
            link_mbit: None,
            limit_s: 9,
        };
        Cell { kind, cores: 2, pinned, workload }
    }

    pub(in crate::lab) fn programs() -> Programs {
        Programs {
            agent: "/p/agent".into(),
            workloads: "/p/workloads".into(),
            libtorch: None,
            inputs: "/i".into(),
        }
    }

    #[test]
    fn the_agent_is_told_the_same_everywhere() {
        let words = arguments(&cell(Kind::Vm, false), "/programs/w", "/results").join(" ");
        assert_eq!(words, "run --json --name w --output /results -- /programs/w infer loop");
    }
}
