//! Virtual machines of QEMU: some runs get a new one, the others share one for their platform, which stays
//! up. Run folders come back on a separate disk, after each run.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    container::{Inside, RUNS, all_capabilities},
    folders::move_to,
    plan::{Cell, Kind},
    programs::{Programs, arguments},
    shared,
    stun::Stunned,
};
use crate::{
    Xtask, apt,
    artifact::{AGENT, WORKLOADS},
    cache::remove_folder,
    command,
    progress::Step,
    toolchain::Toolchain,
    vm::{
        answers::Answers,
        debian::{self, Image},
        guest::{self, Guest, Machine, Model, RESULTS, SHARED, Task},
        matrix::Matrix,
        payload::{MOUNTED, Payload},
        session::Session,
    },
};

/// Name of the guests' kernel in `xtask/kernels.toml`.
const KERNEL: &str = "6.12";
/// Limit from the emulator's start to the guest's first line.
const BOOT: Duration = Duration::from_mins(3);
/// Time around the workload: loading libraries, the agent's start and end.
const AROUND: Duration = Duration::from_mins(1);
/// Least slowdown of an emulated guest.
const EMULATED: u32 = 10;
/// Size of that disk: run folders take a few MB, and empty blocks take no space.
const DISK_BYTES: u64 = 256 << 20;
/// Name of a job's only task.
const NAME: &str = "lab";
/// The container runtime in guests: this machine's, with the libraries that it is linked with.
const RUNC: &str = "runc";
/// Bundle of the container in a guest.
const BUNDLE: &str = "/tmp/lab";
/// Most guests that stay up; one more ends the least recently used one.
const MOST: usize = 8;

/// The files of all virtual machines of a lab, and the guests that are up.
pub(super) struct Guests {
    image: Image,
    payload: Payload,
    machine: Machine,
    shared: PathBuf,
    memory_mb: u32,
    /// Guests that are up, by platform, the most recently used last.
    standing: Vec<(String, Up)>,
}

/// A guest that is up.
struct Up {
    session: Session,
    results: PathBuf,
}

impl Guests {
    /// Prepares QEMU, a kernel, and disks of the programs and their inputs.
    pub(super) fn ensure(
        xtask: &Xtask,
        toolchain: &Toolchain,
        programs: &Programs,
        shared: PathBuf,
        has_containers: bool,
        memory_mb: u32,
    ) -> Result<Self> {
        let matrix = Matrix::load(&[])?;
        let kernel = matrix.kernel(KERNEL).with_context(|| format!("no such kernel: {KERNEL}"))?;
        guest::ensure(xtask, kernel.architecture)?;
        let image = debian::image(xtask, kernel)?;
        let mut files = vec![
            (programs.agent.clone(), AGENT.to_owned()),
            (programs.workloads.clone(), WORKLOADS.to_owned()),
        ];
        if has_containers {
            files.push((command::find(RUNC).context("no runc")?, RUNC.to_owned()));
        }
        let payload = Payload::of_programs(xtask, toolchain, &files, programs.libtorch.as_deref())?;
        let machine = Machine::choose(xtask, &image, &payload)?;
        Ok(Self { image, payload, machine, shared, memory_mb, standing: Vec::new() })
    }

    /// Runs the cell in a guest, and moves its run folder below `output`.
    pub(super) fn run(
        &mut self,
        xtask: &Xtask,
        step: &Step,
        cell: &Cell,
        is_fresh: bool,
        output: &Path,
    ) -> Result<()> {
        let platform = cell.platform();
        let place = self.standing.iter().position(|(name, _)| !is_fresh && *name == platform);
        let mut up = match place {
            // A guest in which anything goes wrong is not used again.
            Some(place) => self.standing.remove(place).1,
            None => self.boot(xtask, step, cell, is_fresh)?,
        };
        self.work(xtask, step, cell, &mut up)?;
        let meanwhile = up.results.with_extension("fetched");
        fetch(&up.results, &meanwhile, output)?;
        if !is_fresh {
            self.standing.push((platform, up));
            if self.standing.len() > MOST {
                self.standing.remove(0);
            }
        }
        Ok(())
    }

    fn boot(&self, xtask: &Xtask, step: &Step, cell: &Cell, is_fresh: bool) -> Result<Up> {
        let end = if is_fresh { "-fresh" } else { "" };
        let name = format!("{NAME}-{}{end}", cell.platform());
        let results = xtask.workspace.target.join("lab").join(".guests").join(format!("{name}.img"));
        make_disk(xtask, &results)?;
        let tied_to = tied_to(cell);
        let guest = self.guest(cell, &name, &results, tied_to.as_deref())?;
        let session = Session::boot(xtask, step, &guest)?;
        Ok(Up { session, results })
    }

    fn guest<'a>(
        &'a self,
        cell: &Cell,
        name: &'a str,
        results: &'a Path,
        tied_to: Option<&'a str>,
    ) -> Result<Guest<'a>> {
        let model = if cell.kind == Kind::Microvm { Model::Micro } else { Model::Usual };
        Ok(Guest {
            machine: self.machine,
            model,
            cpus: u8::try_from(cell.cores).context("cores of a virtual machine")?,
            memory_mb: self.memory_mb,
            tied_to,
            results: Some(results),
            shared: Some(&self.shared),
            waits: true,
            limit: BOOT,
            ..Guest::plain(&self.image, &self.payload, name)
        })
    }

    fn work(&self, xtask: &Xtask, step: &Step, cell: &Cell, up: &mut Up) -> Result<()> {
        let slower = if self.machine == Machine::Emulated { EMULATED } else { 1 };
        let limit = Duration::from_secs(cell.workload.limit_s) * slower + AROUND;
        let (files, task) = self.job(cell, limit);
        let guest = self.guest(cell, NAME, &up.results, None)?;
        let log = guest::log_files(xtask, NAME);
        let stunned = cell.stun.map(|stun| Stunned::begin(up.session.pid(), stun));
        let answers = up
            .session
            .run(step, &guest, &files, &[task], limit + AROUND)
            .with_context(|| format!("see {}", log[0].parent().unwrap_or(&log[0]).display()))?;
        outcome(&answers)?;
        if let Some(stunned) = stunned {
            let stops = stunned.end()?;
            step.update(&format!("was stopped {stops} times"));
        }
        Ok(())
    }

    /// The files and the task for a guest.
    fn job(&self, cell: &Cell, limit: Duration) -> (Vec<(String, String)>, Task) {
        let (agent, workloads) = (format!("{MOUNTED}/{AGENT}"), format!("{MOUNTED}/{WORKLOADS}"));
        let environment: Vec<(String, String)> = shared::environment(SHARED).into();
        if cell.kind != Kind::ContainerInVm {
            let task = Task {
                name: NAME,
                program: AGENT,
                arguments: arguments(cell, &workloads, RESULTS),
                environment,
                limit,
            };
            return (Vec::new(), task);
        }
        let inside = Inside {
            argv: std::iter::once(agent).chain(arguments(cell, &workloads, RUNS)).collect(),
            environment,
            places: places(&self.payload.libraries),
            output: RESULTS.into(),
            capabilities: all_capabilities(),
            devices: Vec::new(),
        };
        let files = vec![
            (format!("{BUNDLE}/config.json"), inside.config(cell).to_string()),
            // A file in the folder, so that the folder is made.
            (format!("{BUNDLE}/rootfs/tmp/made"), String::new()),
        ];
        // A guest's initramfs cannot be left by pivot_root.
        let words = ["--root", "/tmp/runc", "run", "--no-pivot", "--bundle", BUNDLE, NAME];
        let task = Task {
            name: NAME,
            program: RUNC,
            arguments: words.map(str::to_owned).into(),
            environment: Vec::new(),
            limit,
        };
        (files, task)
    }
}

/// The machine's CPUs that a pinned guest may use.
fn tied_to(cell: &Cell) -> Option<String> {
    cell.pinned.then(|| cell.cpu_list())
}

/// Folders that a container in a guest has to see: the disks, and the top folders of the libraries.
fn places(libraries: &[PathBuf]) -> Vec<PathBuf> {
    let first = libraries.iter().filter_map(|library| library.iter().nth(1));
    let mut places: Vec<PathBuf> = first.map(|name| Path::new("/").join(name)).collect();
    places.extend([MOUNTED.into(), SHARED.into()]);
    places.sort();
    places.dedup();
    places
}

fn outcome(answers: &Answers) -> Result<()> {
    let Some(said) = answers.steps.get(NAME) else {
        bail!("the guest never started: {}", answers.complaints.join(", "));
    };
    let end = said.end.as_deref().unwrap_or("the guest ended first");
    ensure!(end == "status 0", "{end}: {}", said.err.lines().next_back().unwrap_or_default().trim());
    Ok(())
}

/// An empty ext4 file system without a journal: `fetch` cannot replay one.
fn make_disk(xtask: &Xtask, disk: &Path) -> Result<()> {
    apt::need(xtask, &["e2fsprogs"])?;
    let what = || format!("disk: {}", disk.display());
    fs::create_dir_all(disk.parent().unwrap_or(disk)).with_context(what)?;
    // A new file, since a guest that is still ending may use the old one.
    drop(fs::remove_file(disk));
    let file = File::create(disk).with_context(what)?;
    file.set_len(DISK_BYTES).with_context(what)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0"]).arg(disk);
    ensure!(command::text(&mut make).is_some(), "mke2fs failed: {}", disk.display());
    Ok(())
}

/// Copies the one run folder from the disk without mounting it: the guest has unmounted it.
fn fetch(disk: &Path, meanwhile: &Path, output: &Path) -> Result<()> {
    let what = || format!("fetching the run folder to {}", meanwhile.display());
    remove_folder(meanwhile)?;
    fs::create_dir_all(meanwhile).with_context(what)?;
    let mut dump = Command::new("debugfs");
    dump.arg("-R").arg(format!("rdump / \"{}\"", meanwhile.display())).arg(disk);
    ensure!(command::succeeds(&mut dump), "debugfs failed: {}", disk.display());
    let entries = fs::read_dir(meanwhile).with_context(what)?;
    let folders = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let folders: Vec<PathBuf> = folders.filter(|path| path.join("manifest.json").is_file()).collect();
    ensure!(folders.len() == 1, "{} run folders instead of one", folders.len());
    move_to(&folders[0], output)?;
    fs::remove_dir_all(meanwhile).with_context(what)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{outcome, places, tied_to};
    use crate::{
        lab::{plan::Kind, run::tests::cell},
        vm::answers::Answers,
    };

    #[test]
    fn containers_see_the_first_folders_of_libraries() {
        let libraries =
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld.so", "/lib/x86_64-linux-gnu/libm.so.6"];
        let found = places(&libraries.map(PathBuf::from));
        assert_eq!(found, ["/lib", "/lib64", "/shared", "/work"].map(PathBuf::from));
    }

    #[test]
    fn pinned_guests_are_tied_to_as_many_cpus() {
        assert_eq!(tied_to(&cell(Kind::Vm, true)).as_deref(), Some("0-1"));
        assert_eq!(tied_to(&cell(Kind::Vm, false)), None);
    }

    #[test]
    fn what_became_of_a_job_is_understood() {
        let of = |text: &str| outcome(&Answers::read(text)).map_err(|error| error.to_string());
        assert_eq!(of("lab| {}\nlab= status 0, 1.2 s\n"), Ok(()));
        assert_eq!(of("lab! error: no\nlab= status 2, 1.2 s\n"), Err("status 2: error: no".to_owned()));
        assert_eq!(of("guest: failed: x\n"), Err("the guest never started: failed: x".to_owned()));
    }
}
