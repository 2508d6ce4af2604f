//! One run of one cell: new processes, a new container, and a virtual machine that is new or stays up.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    container::Container,
    engine::Engine,
    folders::{folders, move_to},
    link::Link,
    machine,
    plan::{Cell, Kind},
    programs::Programs,
    ready::Platforms,
    seen::Seen,
};
use crate::{
    Xtask,
    cache::remove_folder,
    command::{self, Finished, Run},
    process,
    progress::Step,
};

/// Time beside the workload's own limit: starting a guest and the agent, and closing the folder.
const AROUND: Duration = Duration::from_mins(1);

/// Makes the run; returns its run folder below `output`. The folder is made in `staging`, which is emptied
/// before, so that `output` gets nothing if the run fails or never ends.
pub(super) fn run(
    xtask: &Xtask,
    step: &Step,
    platforms: &mut Platforms,
    cell: &Cell,
    is_fresh: bool,
    staging: &Path,
    output: &Path,
) -> Result<PathBuf> {
    remove_folder(staging)?;
    fs::create_dir_all(staging).with_context(|| format!("folder: {}", staging.display()))?;
    let Platforms { programs, guests, host, .. } = platforms;
    match (cell.kind.is_guest(), guests) {
        (true, Some(guests)) => guests.run(xtask, step, cell, is_fresh, staging)?,
        (true, None) => bail!("no virtual machine was prepared"),
        (false, _) => in_staging(xtask, step, programs, cell, staging)?,
    }
    let made = folders(staging)?;
    let [made] = made.as_slice() else { bail!("{} run folders instead of one", made.len()) };
    Seen::of_run(made)?.check(cell.kind, host)?;
    move_to(made, output)
}

fn in_staging(xtask: &Xtask, step: &Step, programs: &Programs, cell: &Cell, output: &Path) -> Result<()> {
    let limit = Duration::from_secs(cell.workload.limit_s) + AROUND;
    let log = xtask.log("lab");
    let run = Run { step, log: &log, limit };
    let bundle = xtask.workspace.target.join("lab").join(".bundle");
    let _link = Link::of(&cell.workload)?;
    let finished = match cell.kind {
        Kind::Machine => finish(&run, machine::command(programs, cell, output)),
        Kind::Container => {
            let container = Container::prepare(programs, cell, output, bundle)?;
            finish(&run, container.command())
        }
        Kind::Podman | Kind::Docker => {
            let container = Engine::prepare(programs, cell, output, &bundle)?;
            finish(&run, container.command())
        }
        Kind::Vm | Kind::Microvm | Kind::ContainerInVm => bail!("runs in a guest: {}", cell.name()),
    }?;
    outcome(&finished, limit)
}

/// Runs to the end, or to that of the lab: agents and engines forward its signal.
fn finish(run: &Run, mut command: Command) -> Result<Finished> {
    process::end_with_parent(&mut command);
    run.finish(&mut command)
}

fn outcome(finished: &Finished, limit: Duration) -> Result<()> {
    if finished.timed_out {
        bail!("it did not end within {} s", limit.as_secs());
    }
    if !finished.status.success() {
        let tail = command::tail(&finished.text);
        bail!("{}: {}", finished.status, tail.lines().next_back().unwrap_or_default().trim());
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        fs,
        path::Path,
        process::{Command, Stdio},
        thread,
        time::{Duration, Instant},
    };

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use rstest::rstest;

    use super::{Programs, finish};
    use crate::{
        command::Run,
        lab::{
            plan::{Cell, Kind, Workload},
            programs::arguments,
        },
        process,
        progress::Progress,
    };

    /// Variable with the log of the lab that a test kills.
    const LOG: &str = "GUESTSCOPE_TEST_LAB_LOG";
    const PATIENCE: Duration = Duration::from_mins(1);

    pub(in crate::lab) fn cell(kind: Kind, pinned: bool) -> Cell {
        let workload = Workload {
            name: "w".to_owned(),
            command: ["infer", "loop"].map(str::to_owned).into(),
            torch: false,
            inputs: false,
            link_mbit: None,
            limit_s: 9,
        };
        Cell { kind, cores: 2, pinned, stun: None, workload }
    }

    pub(in crate::lab) fn programs() -> Programs {
        Programs {
            agent: "/p/agent".into(),
            workloads: "/p/workloads".into(),
            libtorch: None,
            inputs: "/i".into(),
            devices: Vec::new(),
        }
    }

    #[test]
    fn the_agent_is_told_the_same_everywhere() {
        let words = arguments(&cell(Kind::Vm, false), "/programs/w", "/results").join(" ");
        assert_eq!(words, "run --json --name w --output /results -- /programs/w infer loop");
    }

    /// The lab that the next test kills, in a process of its own: only that test starts it.
    #[test]
    fn lab_that_is_to_be_killed() {
        let Some(log) = std::env::var_os(LOG) else { return };
        let step = Progress::new().step("test");
        let run = Run { step: &step, log: Path::new(&log), limit: PATIENCE };
        let mut sleep = Command::new("sh");
        sleep.args(["-c", "echo $$; exec sleep 1000"]);
        drop(finish(&run, sleep));
    }

    #[rstest]
    #[case::politely(Signal::SIGTERM)]
    #[case::at_once(Signal::SIGKILL)]
    fn a_run_ends_with_its_lab(#[case] signal: Signal) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut lab = Command::new(std::env::current_exe().unwrap());
        lab.args(["--exact", "lab::run::tests::lab_that_is_to_be_killed"]).env(LOG, &log);
        let mut lab = lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(begun.elapsed() < PATIENCE, "nothing happens");
                thread::sleep(Duration::from_millis(10));
            }
        };
        let said = || fs::read_to_string(&log).unwrap_or_default();
        until(&|| said().ends_with('\n'));
        let run: u32 = said().trim().parse().unwrap();
        assert!(process::is_running(run));
        kill(Pid::from_raw(lab.id() as i32), signal).unwrap();
        lab.wait().unwrap();
        until(&|| !process::is_running(run));
    }
}
