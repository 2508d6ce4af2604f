//! One virtual machine: started with a kernel, a first program and a job, and watched until it turns itself
//! off.
//!
//! Yields the output of its second serial port. If there is no /dev/kvm, or it does not boot a stock kernel,
//! as in many clouds' guests, everything is emulated, which is some ten times slower.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    answers::Answers,
    debian::Image,
    emulator,
    initramfs::Archive,
    matrix::{Architecture, Outside},
    payload::{MOUNTED, Payload},
    restorer::Restorer,
    stopper::Stopper,
};
use crate::{
    Xtask, apt,
    artifact::{AGENT, WORKLOADS},
    command::{self, Finished, Run},
    progress::Step,
};

/// Limit for the trial: with KVM a guest prints its first line within two seconds.
const TRIAL: Duration = Duration::from_secs(20);

/// Mount point of the disk for a guest's results.
pub(crate) const RESULTS: &str = "/results";
/// Mount point of a shared, read-only disk.
pub(crate) const SHARED: &str = "/shared";

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Virtual,
    Emulated,
}

/// The guest's hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Model {
    /// A PC, or arm64's `virt`.
    Usual,
    /// QEMU's microvm: no PCI, no firmware of a PC.
    Micro,
}

/// One program to run in a guest or on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: &'static str,
    /// Path below the folder of programs.
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
    /// Environment in guests, in addition to that of every program there.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) limit: Duration,
}

/// Settings of a guest.
pub(crate) struct Guest<'a> {
    pub(crate) image: &'a Image,
    pub(crate) payload: &'a Payload,
    pub(crate) machine: Machine,
    pub(crate) model: Model,
    pub(crate) hide_btf: bool,
    /// User and group number; root if none.
    pub(crate) user: Option<u32>,
    pub(crate) cpus: u8,
    pub(crate) memory_mb: u32,
    /// Whether its tests are judged by durations.
    pub(crate) is_timed: bool,
    /// What is done to it when it asks.
    pub(crate) outside: Outside,
    /// The CPUs of this machine that it may use; all if there is no list.
    pub(crate) tied_to: Option<&'a str>,
    /// A disk of its own for its results.
    pub(crate) results: Option<&'a Path>,
    /// A disk that it may only read.
    pub(crate) shared: Option<&'a Path>,
    /// Whether it takes further tasks after its first ones: see `Session`.
    pub(crate) waits: bool,
    /// Limit from its start until it is off, by the clock of this machine.
    pub(crate) limit: Duration,
    /// Prefix of its files' names in the folder of logs.
    pub(crate) name: &'a str,
}

/// Installs QEMU if it is missing.
pub(crate) fn ensure(xtask: &Xtask, architecture: Architecture) -> Result<()> {
    let (program, package) = emulator::emulator(architecture);
    if command::find(program).is_none() {
        apt::need(xtask, &[package])?;
    }
    Ok(())
}

impl Machine {
    /// The fastest machine that boots this kernel.
    pub(crate) fn choose(xtask: &Xtask, image: &Image, payload: &Payload) -> Result<Self> {
        if OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
            xtask.progress.present("virtual machines", "emulated: no /dev/kvm");
            return Ok(Self::Emulated);
        }
        let step = xtask.progress.step("virtual machines");
        let guest = Guest { machine: Self::Virtual, limit: TRIAL, ..Guest::plain(image, payload, "trial") };
        let answers = guest.run(xtask, &step, &[])?;
        let chosen = if answers.is_done { Self::Virtual } else { Self::Emulated };
        step.done(match chosen {
            Self::Virtual => "by KVM",
            Self::Emulated => "emulated: /dev/kvm is there and runs no guest",
        });
        Ok(chosen)
    }
}

/// The folder of the guests' logs.
pub(crate) fn logs(xtask: &Xtask) -> PathBuf {
    xtask.workspace.target.join("vm-logs")
}

/// Files with the kernel's messages, and with the guest's output.
pub(crate) fn log_files(xtask: &Xtask, name: &str) -> [PathBuf; 2] {
    ["kernel", "guest"].map(|kind| logs(xtask).join(format!("{name}.{kind}.log")))
}

impl<'a> Guest<'a> {
    /// One CPU, emulated, with defaults and a limit of zero.
    pub(crate) fn plain(image: &'a Image, payload: &'a Payload, name: &'a str) -> Self {
        Self {
            image,
            payload,
            machine: Machine::Emulated,
            model: Model::Usual,
            hide_btf: false,
            user: None,
            cpus: 1,
            memory_mb: 2048,
            is_timed: false,
            outside: Outside::Nothing,
            tied_to: None,
            results: None,
            shared: None,
            waits: false,
            limit: Duration::ZERO,
            name,
        }
    }
}

impl Guest<'_> {
    /// Boots it, lets it run its tasks, and waits until it is off.
    pub(crate) fn run(&self, xtask: &Xtask, step: &Step, tasks: &[Task]) -> Result<Answers> {
        let [kernel_log, log] = log_files(xtask, self.name);
        fs::create_dir_all(logs(xtask))?;
        let initramfs = logs(xtask).join(format!("{}.initramfs", self.name));
        fs::write(&initramfs, self.initramfs(tasks)?).context("initramfs")?;
        drop(fs::remove_file(&kernel_log));
        let mut qemu = self.qemu(&initramfs, &kernel_log);
        let run = Run { step, log: &log, limit: self.limit };
        let finished = match self.outside {
            Outside::Nothing | Outside::Reboot => run.finish(&mut qemu),
            Outside::Stop => {
                let stopper = Stopper::listen(&logs(xtask), self.name)?;
                qemu.args(stopper.arguments()).args(["-serial", "chardev:stopper"]);
                run.finish(&mut qemu)
            }
            Outside::Restore => self.restored(xtask, &run, &initramfs, &kernel_log),
        };
        fs::remove_file(&initramfs)?;
        let finished = finished?;
        let mut answers = Answers::read(&finished.text);
        answers.trouble.extend(trouble(&fs::read_to_string(&kernel_log).unwrap_or_default()));
        if finished.timed_out {
            answers.trouble.push(format!("not off after {} s", self.limit.as_secs()));
        } else if !finished.status.success() {
            answers.trouble.push(format!("QEMU: {}", finished.status));
        }
        Ok(answers)
    }

    /// Runs one QEMU after the other, as often as the guest is saved. Each starts with the original disk: the
    /// guest's writes are in its memory, and it does not read the disk again.
    fn restored(
        &self,
        xtask: &Xtask,
        run: &Run<'_>,
        initramfs: &Path,
        kernel_log: &Path,
    ) -> Result<Finished> {
        let restorer = Restorer::listen(&logs(xtask), self.name)?;
        let (mut text, mut number) = (String::new(), 0);
        loop {
            number += 1;
            let mut qemu = self.qemu(initramfs, kernel_log);
            qemu.args(restorer.arguments(number));
            let finished = run.finish(&mut qemu)?;
            text.push_str(&finished.text);
            if finished.timed_out || !finished.status.success() || !restorer.take_saved() {
                // The log has only the last QEMU's output; all of it is wanted.
                fs::write(run.log, &text)?;
                return Ok(Finished { text, ..finished });
            }
        }
    }

    pub(super) fn initramfs(&self, tasks: &[Task]) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        for folder in ["dev", "proc", "sys", "tmp", "modules", "work", "var"] {
            archive.directory(folder);
        }
        archive.console();
        for library in &self.payload.libraries {
            // The loader expects the library at the path that it has on this machine.
            let name = library.strip_prefix("/").unwrap_or(library).to_string_lossy();
            if let Some((folder, _)) = name.rsplit_once('/') {
                archive.directory(folder);
            }
            let bytes = fs::read(library).with_context(|| format!("file: {}", library.display()))?;
            archive.program(&name, &bytes);
        }
        let init = &self.payload.init;
        archive.program("init", &fs::read(init).with_context(|| format!("file: {}", init.display()))?);
        archive.file("job.json", self.job(tasks).to_string().as_bytes());
        for (name, file) in self.image.modules() {
            archive.file(&format!("modules/{name}"), &fs::read(file)?);
        }
        Ok(archive.finish())
    }

    /// The format is that of the example `guest_init`.
    fn job(&self, tasks: &[Task]) -> Value {
        json!({
            "disk": [emulator::WORK, MOUNTED],
            "results": self.results.map(|_| [emulator::RESULTS, RESULTS]),
            "shared": self.shared.map(|_| [emulator::SHARED, SHARED]),
            "hide_btf": self.hide_btf,
            "steps": tasks.iter().map(|task| self.step(task)).collect::<Vec<_>>(),
            "waits": self.waits,
        })
    }

    /// One task, as a guest reads it.
    pub(super) fn step(&self, task: &Task) -> Value {
        let program = format!("{MOUNTED}/{}", task.program);
        let argv: Vec<&str> =
            std::iter::once(program.as_str()).chain(task.arguments.iter().map(String::as_str)).collect();
        let mut environment = environment(Path::new(MOUNTED), self.outside);
        environment.extend(task.environment.iter().cloned());
        json!({
            "name": task.name,
            "argv": argv,
            "environment": environment,
            "user": self.user,
            "limit_s": task.limit.as_secs(),
        })
    }
}

/// Environment of every program in a guest: where the other programs are, and that the machine is disposable.
fn environment(programs: &Path, outside: Outside) -> BTreeMap<String, String> {
    let place = |name: &str| programs.join(name).display().to_string();
    let pairs = [
        ("PATH", "/bin".to_owned()),
        ("HOME", "/tmp".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        ("GUESTSCOPE_BIN", place(AGENT)),
        ("GUESTSCOPE_WORKLOADS_BIN", place(WORKLOADS)),
        // Tests that would harm an ordinary machine check this variable.
        ("GUESTSCOPE_DISPOSABLE", "1".to_owned()),
    ];
    let line = outside.variable().map(|(name, value)| (name, value.to_owned()));
    // Numbers of faults and tempests for the tests, if the user asked for more.
    let asked = ["GUESTSCOPE_REPETITIONS", "GUESTSCOPE_TEMPESTS"];
    let asked = asked.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let all = pairs.into_iter().chain(line).chain(asked);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Messages that a kernel prints before it dies, with the first place that they name: a dead guest reports
/// nothing itself.
pub(super) fn trouble(log: &str) -> Vec<String> {
    let lines = log.lines().map(|line| line.split_once("] ").map_or(line, |(_, text)| text).trim());
    let signs = ["Oops: ", "BUG: ", "Kernel panic", "watchdog: BUG", "rcu: INFO"];
    let begins =
        |line: &&str| signs.iter().any(|sign| line.starts_with(sign)) || line.starts_with("RIP: 0010:");
    let mut found: Vec<String> = lines.filter(begins).map(|line| format!("kernel: {line}")).collect();
    found.dedup();
    // Messages after the first few are consequences.
    found.truncate(3);
    found
}

#[cfg(test)]
mod tests {
    use super::trouble;

    #[test]
    fn a_kernel_that_dies_is_heard() {
        let log = "[    0.0] Kernel command line: panic=-1\r\n[  513.1] Oops: int3: 0000 [#1] SMP\r\n\
                   [  513.1] CPU: 0 PID: 1\n[  513.1] RIP: 0010:__schedule+0x343/0xbe0\n\
                   [  513.2] RIP: 0033:0x7f0\n[  513.3] Kernel panic - not syncing: Fatal\n[  513.4] BUG: more\n";
        let expected = [
            "Oops: int3: 0000 [#1] SMP",
            "RIP: 0010:__schedule+0x343/0xbe0",
            "Kernel panic - not syncing: Fatal",
        ];
        assert_eq!(trouble(log), expected.map(|line| format!("kernel: {line}")));
        assert!(trouble("[    0.0] Linux version 6.1\n").is_empty());
    }
}
