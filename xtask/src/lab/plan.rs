//! A plan: which platforms, with how many cores, pinned or not, run which workloads, and how often.
//!
//! Yields a valid [`Plan`]; anything else is refused with its position. It runs nothing.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::failure::failure;

/// A plan's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Name of its folder below `target/lab`.
    pub(super) name: String,
    /// Seed of the order.
    pub(super) seed: u64,
    /// Runs of each cell.
    pub(super) repetitions: u32,
    /// Share of the runs in virtual machines that get a new one, from 0 to 1. The others share one that stays
    /// up, each in new processes.
    #[serde(default = "always")]
    pub(super) fresh: f64,
    /// Memory of each virtual machine.
    #[serde(default = "two_gigabytes")]
    pub(super) memory_mb: u32,
    /// Whether workloads compute on this machine's GPU, built against its own PyTorch.
    #[serde(default)]
    pub(super) gpu: bool,
    #[serde(rename = "platform")]
    pub(super) platforms: Vec<Platform>,
    #[serde(rename = "workload")]
    pub(super) workloads: Vec<Workload>,
}

/// Default: every run has a new guest.
const fn always() -> f64 {
    1.0
}

/// Default: enough for libtorch and a model of 100 MB.
const fn two_gigabytes() -> u32 {
    2048
}

/// A kind of platform and its variants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Platform {
    pub(super) kind: Kind,
    /// Numbers of CPUs, one cell for each.
    pub(super) cores: Vec<u32>,
    /// Whether the CPUs are pinned, one cell for each.
    pub(super) pinned: Vec<bool>,
    /// Stops of its virtual machines from outside while they work.
    pub(super) stun: Option<Stun>,
}

/// Repeated stops of a virtual machine, as at the end of a live migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stun {
    /// Time from the start of the work to the first stop, and from the end of each stop to the next.
    pub(super) every_ms: u64,
    /// Length of a stop.
    pub(super) ms: u64,
}

/// The technology of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The machine that runs the lab. Cores are an affinity.
    Machine,
    /// runc. Cores are a CPU quota, or a cpuset if pinned, as in container engines.
    Container,
    /// podman, with its defaults. Cores as in `Container`.
    Podman,
    /// Docker, with its defaults, if a daemon answers. Cores as in `Container`.
    Docker,
    /// A virtual machine of QEMU with as many CPUs as cores; if pinned, tied to as many CPUs of this machine.
    Vm,
    /// QEMU's microvm. Cores as in `Vm`.
    Microvm,
    /// runc in such a virtual machine, with as many CPUs as cores; inside a quota, or a cpuset if pinned, and
    /// then also tied to CPUs of this machine.
    ContainerInVm,
}

impl Kind {
    /// Its name in plans and folders.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Container => "container",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Vm => "vm",
            Self::Microvm => "microvm",
            Self::ContainerInVm => "container-in-vm",
        }
    }

    /// Whether it has a kernel of its own.
    pub(super) const fn is_guest(self) -> bool {
        match self {
            Self::Machine | Self::Container | Self::Podman | Self::Docker => false,
            Self::Vm | Self::Microvm | Self::ContainerInVm => true,
        }
    }
}

/// A workload of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    /// Name of its runs.
    pub(super) name: String,
    /// Arguments of `guestscope-workloads`.
    pub(super) command: Vec<String>,
    /// Whether it needs libtorch.
    #[serde(default)]
    pub(super) torch: bool,
    /// Whether it makes its own inputs: they are made once, on this machine, for every platform.
    #[serde(default)]
    pub(super) inputs: bool,
    /// Gives each of its parts (`--workers N` and their server) a network namespace, with links of this rate,
    /// Mbit/s.
    pub(super) link_mbit: Option<u32>,
    /// Time limit, seconds.
    pub(super) limit_s: u64,
}

impl Workload {
    /// Whether its command asks for a GPU.
    fn is_for_gpu(&self) -> bool {
        let pairs = self.command.windows(2);
        pairs.into_iter().any(|pair| pair[0] == "--device" && pair[1].starts_with("cuda"))
    }

    /// Number of workers, if it trains in several processes.
    pub(super) fn workers(&self) -> Option<u32> {
        let place = self.command.iter().position(|word| word == "--workers")?;
        self.command.get(place + 1)?.parse().ok().filter(|workers| *workers > 0)
    }
}

impl Plan {
    /// Reads and checks a file.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("plan: {}", path.display()))?;
        let plan: Self = toml::from_str(&text).map_err(|error| {
            failure(format!("not a plan: {}: {error}", path.display()), "see xtask/plans for plans that work")
        })?;
        plan.check().with_context(|| format!("plan: {}", path.display()))?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && !name.starts_with('.')
        };
        ensure!(is_plain(&self.name), "a name is letters, digits, `-`, `_` and `.`: `{}`", self.name);
        ensure!((1..=1_000).contains(&self.repetitions), "repetitions: {}, not 1 to 1,000", self.repetitions);
        ensure!((0.0..=1.0).contains(&self.fresh), "fresh: {}, not 0 to 1", self.fresh);
        ensure!(self.memory_mb >= 256, "memory_mb: {}, less than 256", self.memory_mb);
        ensure!(!self.platforms.is_empty() && !self.workloads.is_empty(), "no platform or no workload");
        for platform in &self.platforms {
            let name = platform.kind.name();
            ensure!(
                !platform.cores.is_empty() && !platform.pinned.is_empty(),
                "{name}: no cores, or no `pinned`"
            );
            ensure!(
                platform.cores.iter().all(|cores| (1..=1_024).contains(cores)),
                "{name}: cores: not 1 to 1,024"
            );
            if let Some(Stun { every_ms, ms }) = platform.stun {
                ensure!(platform.kind.is_guest(), "{name}: stun: only virtual machines are stopped");
                ensure!((100..=3_600_000).contains(&every_ms), "{name}: every_ms: not 100 to 3,600,000");
                ensure!((10..=60_000).contains(&ms), "{name}: ms: not 10 to 60,000");
            }
        }
        for workload in &self.workloads {
            ensure!(
                is_plain(&workload.name),
                "a name is letters, digits, `-`, `_` and `.`: `{}`",
                workload.name
            );
            ensure!(!workload.command.is_empty(), "{}: an empty command", workload.name);
            ensure!(
                workload.is_for_gpu() == self.gpu && (workload.torch || !self.gpu),
                "{}: a plan with `gpu = true` has workloads with `--device cuda` and `torch = true`, and no \
                 other plan has",
                workload.name
            );
            ensure!((1..=86_400).contains(&workload.limit_s), "{}: limit_s: not 1 to 86,400", workload.name);
            if let Some(mbit) = workload.link_mbit {
                ensure!((1..=100_000).contains(&mbit), "{}: link_mbit: not 1 to 100,000", workload.name);
                ensure!(workload.workers().is_some(), "{}: link_mbit without --workers N", workload.name);
                let has_guests = self.platforms.iter().any(|platform| platform.kind.is_guest());
                ensure!(
                    !has_guests,
                    "{}: link_mbit: namespaces are this machine's, not a guest's",
                    workload.name
                );
            }
        }
        let cells = self.cells();
        let distinct: BTreeSet<String> = cells.iter().map(Cell::name).collect();
        ensure!(distinct.len() == cells.len(), "two platforms or workloads are the same");
        Ok(())
    }

    /// The part of a plan that must not change for a lab to continue: all but the repetitions.
    pub(super) fn identity(&self) -> String {
        let all = format!("{:?}", Self { repetitions: 0, ..self.clone() });
        // Plans without these fields keep the identity from before they existed.
        all.replace(", stun: None", "").replace(", gpu: false", "")
    }

    /// All cells, each once.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in &self.workloads {
            for platform in &self.platforms {
                for &cores in &platform.cores {
                    let cell = |&pinned: &bool| Cell {
                        kind: platform.kind,
                        cores,
                        pinned,
                        stun: platform.stun,
                        workload: workload.clone(),
                    };
                    cells.extend(platform.pinned.iter().map(cell));
                }
            }
        }
        cells
    }
}

/// A workload on a platform.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) cores: u32,
    pub(super) pinned: bool,
    pub(super) stun: Option<Stun>,
    pub(super) workload: Workload,
}

impl Cell {
    /// Name of its platform, in folders and reports.
    pub(super) fn platform(&self) -> String {
        let pinned = if self.pinned { "pinned" } else { "free" };
        let stunned = self.stun.map(|stun| format!("-stunned-{}ms", stun.ms)).unwrap_or_default();
        format!("{}-{}-{pinned}{stunned}", self.kind.name(), self.cores)
    }

    /// The CPUs of a pinned cell as a CPU list: as many as it has cores.
    pub(super) fn cpu_list(&self) -> String {
        format!("0-{}", self.cores - 1)
    }

    /// Its name, unique in its plan.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.workload.name, self.platform())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Plan;

    fn plan(text: &str) -> anyhow::Result<Plan> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, text)?;
        Plan::load(&path)
    }

    const GOOD: &str = "name = 'a'\nseed = 1\nrepetitions = 2\n\
        [[platform]]\nkind = 'machine'\ncores = [1, 2]\npinned = [true]\n\
        [[platform]]\nkind = 'container'\ncores = [1]\npinned = [true, false]\n\
        [[workload]]\nname = 'w'\ncommand = ['infer', 'loop']\nlimit_s = 5\n";

    #[test]
    fn cells_are_platforms_by_cores_by_pinning_by_workload() {
        let names: Vec<_> = plan(GOOD).unwrap().cells().iter().map(super::Cell::name).collect();
        let expected =
            ["w/machine-1-pinned", "w/machine-2-pinned", "w/container-1-pinned", "w/container-1-free"];
        assert_eq!(names, expected);
    }

    #[rstest]
    #[case("name = 'a'", "name = '../a'", "a name is letters")]
    #[case("repetitions = 2", "repetitions = 0", "repetitions: 0")]
    #[case("cores = [1, 2]", "cores = []", "machine: no cores")]
    #[case("cores = [1, 2]", "cores = [1, 1]", "are the same")]
    #[case("cores = [1, 2]", "cores = [0]", "cores: not 1")]
    #[case("limit_s = 5", "limit_s = 0", "limit_s")]
    #[case("limit_s = 5", "limit_s = 5\nlink_mbit = 1000", "link_mbit without --workers N")]
    #[case("'loop']\nlimit_s = 5", "'--workers', '2']\nlimit_s = 5\nlink_mbit = 0", "link_mbit: not 1")]
    #[case("command = ['infer', 'loop']", "command = []", "empty command")]
    #[case("kind = 'machine'", "kind = 'mainframe'", "unknown variant")]
    #[case("seed = 1", "seed = 1\nspeed = 2", "unknown field")]
    #[case("seed = 1", "seed = 1\nfresh = 1.5", "fresh: 1.5")]
    #[case("seed = 1", "seed = 1\nfresh = -0.1", "fresh: -0.1")]
    #[case("seed = 1", "seed = 1\nmemory_mb = 16", "memory_mb: 16")]
    #[case("pinned = [true]", "pinned = [true]\nstun = { every_ms = 100, ms = 10 }", "only virtual machines")]
    #[case("'machine'", "'vm'\nstun = { every_ms = 99, ms = 10 }", "every_ms: not")]
    #[case("'machine'", "'vm'\nstun = { every_ms = 100, ms = 9 }", "ms: not 10")]
    #[case("'machine'", "'vm'\nstun = { every_ms = 100 }", "missing field")]
    fn nonsense_is_refused(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
        let error = format!("{:#}", plan(&GOOD.replacen(from, to, 1)).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_plan_is_for_a_gpu_or_not() {
        let asked = GOOD.replacen("'loop']", "'ic', '--device', 'cuda']\ntorch = true", 1);
        let with = asked.replacen("seed = 1", "seed = 1\ngpu = true", 1);
        let (plan_with, without) = (plan(&with).unwrap(), plan(GOOD).unwrap());
        assert!(plan_with.gpu && plan_with.identity().contains("gpu: true"));
        assert!(!without.gpu && !without.identity().contains("gpu"));
        let one_of = [asked, with.replacen("torch = true", "torch = false", 1)];
        for text in one_of.into_iter().chain([GOOD.replacen("seed = 1", "seed = 1\ngpu = true", 1)]) {
            let error = format!("{:#}", plan(&text).unwrap_err());
            assert!(error.contains("w: a plan with `gpu = true` has workloads with"), "{error}");
        }
    }

    #[test]
    fn a_stunned_platform_is_another_one() {
        let stunned = "pinned = [true]\nstun = { every_ms = 2000, ms = 300 }";
        let text = GOOD.replacen("'machine'", "'vm'", 1);
        let (without, with) =
            (plan(&text).unwrap(), plan(&text.replacen("pinned = [true]", stunned, 1)).unwrap());
        assert_eq!(with.cells()[0].name(), "w/vm-1-pinned-stunned-300ms");
        assert!(with.identity().contains("300") && !without.identity().contains("stun"));
    }

    #[test]
    fn links_are_between_parts_of_this_machine() {
        let linked = "'--workers', '2']\nlimit_s = 5\nlink_mbit = 1000";
        let text = GOOD.replacen("'loop']\nlimit_s = 5", linked, 1);
        let workload = &plan(&text).unwrap().workloads[0];
        assert_eq!((workload.link_mbit, workload.workers()), (Some(1000), Some(2)));
        let error = format!("{:#}", plan(&text.replacen("'machine'", "'vm'", 1)).unwrap_err());
        assert!(error.contains("this machine's, not a guest's"), "{error}");
    }

    #[test]
    fn every_platform_has_the_word_that_a_plan_says() {
        for kind in ["machine", "container", "podman", "docker", "vm", "microvm", "container-in-vm"] {
            let text = GOOD.replacen("machine", kind, 1).replacen("[1, 2]", "[3]", 1);
            let plan = plan(&text).unwrap();
            assert_eq!(plan.platforms[0].kind.name(), kind);
        }
    }

    #[test]
    fn the_plans_of_this_repository_make_sense() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        let mut names = std::collections::BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let plan = Plan::load(&path).unwrap();
            // Its results are kept under this name.
            assert_eq!(path.file_stem().unwrap().to_str().unwrap(), plan.name);
            names.insert(plan.name);
        }
        let sizes = |study: &'static str| [study.to_owned(), format!("{study}-small")];
        let studies = ["s1", "s2", "s2-network", "s3", "s4", "s5"].into_iter().flat_map(sizes);
        let others = ["s1-gpu", "s2-gpu", "s4-gpu", "smoke"].map(str::to_owned);
        assert_eq!(names, studies.chain(others).collect());
    }
}
