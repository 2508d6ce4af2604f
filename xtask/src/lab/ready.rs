//! Prepares what the cells of a plan need, and finds those that cannot run here.
//!
//! Yields [`Platforms`]. A cell whose tool, engine or image is missing is skipped by name and with the
//! reason; all others run. The agent, the workloads and their inputs are required for all cells: built
//! differently for some of them, the cells would not do the same work.

use std::{collections::BTreeMap, path::Path, thread};

use anyhow::{Context as _, Result, anyhow};

use super::{
    engine, gpu, machine,
    plan::{Cell, Kind, Plan, Workload},
    programs::Programs,
    seen::Seen,
    shared::{self, Inputs},
    vm::Guests,
};
use crate::{
    Xtask, apt, artifact, cache::write_whole, command, failure::hint, kernel, libtorch::Libtorch,
    pytorch::Pytorch, toolchain::Toolchain,
};

/// File with the reasons of skipped cells by name.
const FILE: &str = "skipped.json";

/// A program, the Debian package that has it, and the kinds that need it.
const TOOLS: [(&str, &str, &[Kind]); 3] = [
    ("runc", "runc", &[Kind::Container, Kind::Podman, Kind::ContainerInVm]),
    ("podman", "podman", &[Kind::Podman]),
    (DOCKER, "docker.io", &[Kind::Docker]),
];
const DOCKER: &str = "docker";
/// Tools that make links between the parts of a workload.
const LINK_TOOLS: [(&str, &str); 2] = [("ip", "iproute2"), ("tc", "iproute2")];

/// Programs and platforms of a lab.
pub(super) struct Platforms {
    pub(super) programs: Programs,
    /// Virtual machines, if the plan has any and they can run.
    pub(super) guests: Option<Guests>,
    /// This machine, as the agent sees it.
    pub(super) host: Seen,
    /// The reason why a cell is skipped, by its name.
    pub(super) skipped: BTreeMap<String, String>,
}

impl Platforms {
    /// Prepares everything that the cells need.
    pub(super) fn ensure(xtask: &Xtask, plan: &Plan, cells: &[Cell]) -> Result<Self> {
        // Before minutes of building.
        let pytorch = plan.gpu.then(|| Pytorch::find(None)).transpose()?;
        let devices = if plan.gpu { gpu::nodes()? } else { Vec::new() };
        let toolchain = Toolchain::ensure(xtask)?;
        let libtorch = !plan.gpu && plan.workloads.iter().any(|workload| workload.torch);
        let libtorch = libtorch.then(|| Libtorch::ensure(xtask)).transpose()?;
        kernel::ensure(xtask);
        let agent = artifact::agent(xtask, &toolchain)?;
        let workloads = match (&pytorch, &libtorch) {
            (Some(pytorch), _) => artifact::cuda_workloads(xtask, pytorch)?,
            (None, Some(libtorch)) => artifact::workloads(xtask, Some(libtorch))?,
            (None, None) => artifact::static_workloads(xtask, &toolchain)?,
        };
        let host = Seen::here(&agent)?;
        let all: Vec<&Workload> = plan.workloads.iter().collect();
        let inputs = Inputs::ensure(xtask, &workloads, &all)?;
        let programs = Programs {
            agent,
            workloads,
            libtorch: match &pytorch {
                Some(pytorch) => Some(pytorch.packages().to_owned()),
                None => libtorch.as_ref().map(|libtorch| libtorch.folder().to_owned()),
            },
            inputs: inputs.folder().to_owned(),
            devices,
        };
        let mut lacks = Lacks::of(cells, |program, package| need(xtask, program, package));
        if plan.gpu {
            lacks.note_guests(cells);
        }
        let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let left: Vec<Kind> =
            cells.iter().filter(|cell| lacks.why(cell, cpus).is_none()).map(|cell| cell.kind).collect();
        let guests = left.iter().any(|kind| kind.is_guest()).then(|| {
            let shared = shared::image(xtask, libtorch.as_ref(), &inputs)?;
            let has_containers = left.contains(&Kind::ContainerInVm);
            Guests::ensure(xtask, &toolchain, &programs, shared, has_containers, plan.memory_mb)
        });
        let guests = guests.and_then(|guests| match guests {
            Ok(guests) => Some(guests),
            Err(error) => {
                let kinds = left.iter().filter(|kind| kind.is_guest());
                lacks.note(kinds, &error.context("no virtual machines"));
                None
            }
        });
        Ok(Self { programs, guests, host, skipped: lacks.skipped(cells, cpus) })
    }
}

/// Ensures that a program is there, from its Debian package if it is missing.
fn need(xtask: &Xtask, program: &str, package: &str) -> Result<()> {
    if program == DOCKER {
        return engine::docker(&xtask.workspace.target.join("lab"));
    }
    if command::find(program).is_some() {
        return Ok(());
    }
    apt::need(xtask, &[package])?;
    command::find(program).map(drop).context("its package is installed, and it is not on PATH")
}

/// Missing tools and engines, with the reasons.
#[derive(Debug, Default)]
struct Lacks {
    kinds: BTreeMap<Kind, String>,
    links: Option<String>,
}

impl Lacks {
    /// Checks each tool that a cell needs, once.
    fn of(cells: &[Cell], mut need: impl FnMut(&str, &str) -> Result<()>) -> Self {
        let mut lacks = Self::default();
        for (program, package, kinds) in TOOLS {
            if cells.iter().any(|cell| kinds.contains(&cell.kind))
                && let Err(error) = need(program, package)
            {
                lacks.note(kinds, &error.context(format!("no {program}")));
            }
        }
        if cells.iter().any(|cell| cell.workload.link_mbit.is_some()) {
            let why = |(program, package): (&str, &str)| {
                let error = need(program, package).err()?;
                Some(reason(&error.context(format!("no {program}"))))
            };
            lacks.links = LINK_TOOLS.into_iter().find_map(why);
        }
        lacks
    }

    /// Keeps the first reason for a kind.
    fn note<'a>(&mut self, kinds: impl IntoIterator<Item = &'a Kind>, error: &anyhow::Error) {
        for kind in kinds {
            self.kinds.entry(*kind).or_insert_with(|| reason(error));
        }
    }

    /// Guests get no graphics processor.
    fn note_guests(&mut self, cells: &[Cell]) {
        let guests = cells.iter().map(|cell| &cell.kind).filter(|kind| kind.is_guest());
        self.note(guests, &anyhow!(gpu::NOT_FOR_GUESTS));
    }

    /// The reason why a cell cannot run on a machine with this many CPUs; none if it can.
    fn why(&self, cell: &Cell, cpus: u32) -> Option<String> {
        let by_cores = || (cell.kind == Kind::Machine).then(|| machine::fits(cell, cpus).err()).flatten();
        let by_links = || self.links.clone().filter(|_| cell.workload.link_mbit.is_some());
        let by_kind = self.kinds.get(&cell.kind).cloned();
        by_kind.or_else(by_links).or_else(|| by_cores().as_ref().map(reason))
    }

    fn skipped(&self, cells: &[Cell], cpus: u32) -> BTreeMap<String, String> {
        let why = |cell: &Cell| Some((cell.name(), self.why(cell, cpus)?));
        cells.iter().filter_map(why).collect()
    }
}

/// The reason on one line; a tool's long output is in its log, which the hint names.
fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let first = text.lines().next().unwrap_or_default();
    hint(error).map_or_else(|| first.to_owned(), |hint| format!("{first} ({hint})"))
}

/// Writes the reasons beside the runs.
pub(super) fn keep(skipped: &BTreeMap<String, String>, folder: &Path) -> Result<()> {
    write_whole(&folder.join(FILE), &serde_json::to_vec_pretty(skipped)?)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use anyhow::{bail, ensure};

    use super::{FILE, Lacks, keep};
    use crate::lab::{
        plan::{Cell, Kind},
        run::tests::cell,
    };

    const ALL: [Kind; 7] = [
        Kind::Machine,
        Kind::Container,
        Kind::Podman,
        Kind::Docker,
        Kind::Vm,
        Kind::Microvm,
        Kind::ContainerInVm,
    ];

    fn cells() -> Vec<Cell> {
        ALL.map(|kind| cell(kind, true)).into()
    }

    /// The kinds that can still run, and the reason for the first missing one.
    fn left(missing: &str) -> (Vec<&'static str>, Option<String>) {
        let cells = cells();
        let lacks = Lacks::of(&cells, |program, package| {
            ensure!(program != missing, "missing packages: {package}\n  | at length");
            Ok(())
        });
        let left = cells.iter().filter(|cell| lacks.why(cell, 2).is_none()).map(|cell| cell.kind.name());
        (left.collect(), lacks.skipped(&cells, 2).into_values().next())
    }

    #[test]
    fn what_lacks_a_tool_is_skipped_and_nothing_else() {
        assert_eq!(left(""), (ALL.map(Kind::name).into(), None));
        let (kinds, why) = left("podman");
        assert_eq!(kinds, ["machine", "container", "docker", "vm", "microvm", "container-in-vm"]);
        assert_eq!(why.as_deref(), Some("no podman: missing packages: podman"));
        let (kinds, why) = left("runc");
        assert_eq!(kinds, ["machine", "docker", "vm", "microvm"]);
        assert_eq!(why.as_deref(), Some("no runc: missing packages: runc"));
    }

    #[test]
    fn without_virtual_machines_the_others_run() {
        let mut lacks = Lacks::of(&cells(), |_, _| Ok(()));
        lacks.note(&[Kind::Vm, Kind::Microvm, Kind::ContainerInVm], &anyhow::anyhow!("no QEMU"));
        let names: Vec<String> = lacks.skipped(&cells(), 2).into_keys().collect();
        assert_eq!(names, ["w/container-in-vm-2-pinned", "w/microvm-2-pinned", "w/vm-2-pinned"]);
    }

    #[test]
    fn a_gpu_is_the_machine_s_and_its_containers() {
        let mut lacks = Lacks::of(&cells(), |_, _| Ok(()));
        lacks.note_guests(&cells());
        let skipped = lacks.skipped(&cells(), 2);
        let names: Vec<&str> = skipped.keys().map(String::as_str).collect();
        assert_eq!(names, ["w/container-in-vm-2-pinned", "w/microvm-2-pinned", "w/vm-2-pinned"]);
        assert!(skipped.values().all(|why| why.starts_with("a lab gives no GPU to a guest")), "{skipped:?}");
    }

    #[test]
    fn only_linked_workloads_need_what_makes_links() {
        let mut linked = cell(Kind::Machine, true);
        linked.workload.link_mbit = Some(100);
        let cells = [cell(Kind::Machine, true), linked];
        let lacks = Lacks::of(&cells, |_, _| bail!("no apt-get"));
        assert_eq!(lacks.why(&cells[0], 2), None);
        assert_eq!(lacks.why(&cells[1], 2).as_deref(), Some("no ip: no apt-get"));
    }

    #[test]
    fn what_is_not_asked_for_is_not_had() {
        let mut asked = Vec::new();
        let lacks = Lacks::of(&[cell(Kind::Vm, false)], |program, _| {
            asked.push(program.to_owned());
            bail!("no")
        });
        assert!(asked.is_empty() && lacks.kinds.is_empty());
    }

    #[test]
    fn a_machine_has_the_cpus_that_it_has() {
        let lacks = Lacks::default();
        let why = |pinned, cpus| lacks.why(&cell(Kind::Machine, pinned), cpus);
        assert_eq!((why(true, 2), why(true, 3), why(false, 2)), (None, None, None));
        assert_eq!(why(true, 1).as_deref(), Some("this machine has 1 CPUs, not 2"));
        assert_eq!(why(false, 3).as_deref(), Some("without pinning this machine has all of its 3 CPUs"));
    }

    #[test]
    fn reasons_lie_beside_the_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut skipped = BTreeMap::from([("w/podman-1-free".to_owned(), "no podman".to_owned())]);
        let text = || fs::read_to_string(folder.path().join(FILE)).unwrap();
        keep(&skipped, folder.path()).unwrap();
        assert_eq!(text(), "{\n  \"w/podman-1-free\": \"no podman\"\n}");
        skipped.clear();
        keep(&skipped, folder.path()).unwrap();
        assert_eq!(text(), "{}");
    }
}
