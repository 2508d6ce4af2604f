//! Python environments of our own, in the cache: one with pip alone, one with the packages of the tests.
//!
//! Yields [`Python`]. An environment of our own works where the system's Python has no pip or may not be
//! changed (PEP 668). It is addressed as `bin/python -m ...`, since its scripts would not survive the rename
//! of the entry.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use nix::sys::statvfs::statvfs;

use crate::{
    Xtask, apt, command,
    failure::failure,
    pins::{
        LINTS_REQUIREMENTS, SERVERS_REQUIREMENTS, TEST_REQUIREMENTS, TORCH_REQUIREMENTS, WEB_REQUIREMENTS,
    },
    setup::{self, Wanted},
};

/// PyPI's torch cannot be imported without CUDA's libraries, which the environment `python-servers` leaves
/// out.
const STAND_INS: &str = include_str!("cuda_stand_ins.py");
/// What a disk must have free before the servers' packages are fetched, GB.
const SERVERS_ROOM_GB: u64 = 15;

/// An environment.
#[derive(Debug)]
pub(crate) struct Python {
    /// Its interpreter.
    pub(crate) program: PathBuf,
}

impl Python {
    /// An environment with pip and nothing else.
    pub(crate) fn bare(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python", "")
    }

    /// An environment with what the tests import.
    pub(crate) fn for_tests(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python-test", TEST_REQUIREMENTS)
    }

    /// An environment with web servers and frameworks, which the tests ask.
    pub(crate) fn with_web_servers(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python-web", WEB_REQUIREMENTS)
    }

    /// An environment with PyTorch and torchvision, which the workloads are measured beside.
    pub(crate) fn with_torch(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python-torch", TORCH_REQUIREMENTS)
    }

    /// An environment with the tools of `check`.
    pub(crate) fn with_lints(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python-lints", LINTS_REQUIREMENTS)
    }

    /// An environment with web servers and libraries of machine learning, for the stage `servers`. None is
    /// made where the disk is fuller than that allows.
    pub(crate) fn for_servers(xtask: &Xtask) -> Result<Self> {
        Self::ensure(xtask, "python-servers", SERVERS_REQUIREMENTS)
    }

    fn ensure(xtask: &Xtask, name: &str, requirements: &str) -> Result<Self> {
        let (base, version) = interpreter(xtask)?;
        let base_name = base.to_string_lossy();
        let is_for_servers = requirements == SERVERS_REQUIREMENTS;
        let stand_ins = if is_for_servers { STAND_INS } else { "" };
        let inputs = [&*base_name, &version, requirements, stand_ins];
        let label = format!("environment `{name}` of Python {version}");
        let wanted = Wanted { name, inputs: &inputs, label: &label, done: "made" };
        let folder = setup::obtain(xtask, wanted, |run, at| {
            if is_for_servers {
                has_room(at)?;
            }
            run.check(Command::new(&base).args(["-m", "venv", "--clear"]).arg(at))?;
            if requirements.is_empty() {
                return Ok(());
            }
            let file = at.join("requirements.txt");
            crate::cache::write_whole(&file, requirements.as_bytes())?;
            let mut install = Self::at(at).pip("install");
            install
                .args(["--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement"])
                .arg(&file);
            run.check(&mut install)?;
            if is_for_servers {
                stand_in(at, |command| run.check(command).map(drop))?;
            }
            Ok(())
        })?;
        Ok(Self::at(&folder))
    }

    fn at(folder: &Path) -> Self {
        Self { program: folder.join("bin/python") }
    }

    /// A program that one of its packages is. Not a script: those name the place where they were installed.
    pub(crate) fn program_of(&self, package: &str) -> PathBuf {
        self.program.with_file_name(package)
    }

    /// A pip command of this environment.
    pub(crate) fn pip(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        // Its own cache would hold a second copy of every large wheel.
        command.args(["-m", "pip", verb, "--no-cache-dir", "--no-input", "--disable-pip-version-check"]);
        command
    }
}

/// Makes stand-ins for CUDA's libraries, and sees that torch can be imported then.
fn stand_in(at: &Path, mut check: impl FnMut(&mut Command) -> Result<()>) -> Result<()> {
    let (program, script) = (at.join("bin/python"), at.join("cuda_stand_ins.py"));
    crate::cache::write_whole(&script, STAND_INS.as_bytes())?;
    let packages = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let packages = command::text(Command::new(&program).args(["-c", packages])).unwrap_or_default();
    check(Command::new(&program).arg(&script).arg(packages.trim()))?;
    let mut import = Command::new(&program);
    check(
        import
            .args(["-c", "import torch; torch.ones(2, 2) @ torch.ones(2, 2)"])
            .env_remove("LD_LIBRARY_PATH"),
    )
}

/// Whether the servers' packages leave enough of the disk: they take 2 GB, and half of that again while they
/// are fetched.
fn has_room(at: &Path) -> Result<()> {
    let disk = statvfs(at.ancestors().find(|folder| folder.exists()).unwrap_or(at))?;
    let free_gb = disk.blocks_available() * disk.fragment_size() / 1_000_000_000;
    if free_gb < SERVERS_ROOM_GB {
        return Err(failure(
            format!("{free_gb} GB of disk are free, of {SERVERS_ROOM_GB} that are asked for"),
            format!("make room on the disk of {}", at.display()),
        ));
    }
    Ok(())
}

/// The interpreter to build on, with its version.
fn interpreter(xtask: &Xtask) -> Result<(PathBuf, String)> {
    if let Some(found) = command::find("python3").and_then(usable) {
        return Ok(found);
    }
    apt::need(xtask, &["python3", "python3-venv"])?;
    usable("/usr/bin/python3".into()).ok_or_else(|| {
        failure(
            "no Python that can make environments: python3",
            "check `python3 -c 'import venv, ensurepip'`",
        )
    })
}

/// The real path and version of an interpreter that can make environments with pip in them.
fn usable(program: PathBuf) -> Option<(PathBuf, String)> {
    let ask = "import sys, venv, ensurepip; print(sys.executable); print('%d.%d.%d' % sys.version_info[:3])";
    let text = command::text(Command::new(program).args(["-c", ask]))?;
    let (path, version) = text.split_once('\n')?;
    Some((path.into(), version.to_owned()))
}
