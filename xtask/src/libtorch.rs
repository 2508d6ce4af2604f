//! libtorch for the workloads: the wheels of PyTorch, of which a program on the CPU needs a part.
//!
//! Yields [`Libtorch`]: headers, libtorch_cpu, libc10, libgomp and the two CUDA libraries that libtorch_cpu
//! names (0.5 GB of 1.2). It leaves libtorch_cuda out, and says so to the linker by a script in place of
//! libtorch.so.

use std::{env, fs, path::Path, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    Xtask,
    command::Run,
    failure::failure,
    pins::LIBTORCH_REQUIREMENTS as REQUIREMENTS,
    python::Python,
    setup::{self, Wanted},
};

const UNPACK: &str = include_str!("unpack_wheels.py");
/// The wheels are for this machine type only.
const MACHINE: &str = "x86_64";
/// What a program on the CPU includes, links or loads.
const MEMBERS: [&str; 6] = [
    "torch/include/",
    "torch/lib/libc10.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libgomp.so.1",
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
];
/// The real libtorch.so holds nothing and names libtorch_cuda.so as needed, which is not here.
const LIBTORCH_SO: &str = "/* Stands for the empty library of this name, without its need of libtorch_cuda. */\n\
                           INPUT(-ltorch_cpu -lc10)\n";

/// The unpacked libraries.
#[derive(Debug)]
pub(crate) struct Libtorch {
    folder: PathBuf,
}

impl Libtorch {
    /// Finds or downloads it.
    pub(crate) fn ensure(xtask: &Xtask) -> Result<Self> {
        if env::consts::ARCH != MACHINE {
            return Err(failure(
                format!("no libtorch is pinned for this machine type: {}", env::consts::ARCH),
                "run on x86-64, or leave out the workloads that need it",
            ));
        }
        let members = MEMBERS.join(" ");
        let inputs = [REQUIREMENTS, &members, LIBTORCH_SO];
        let label = "libtorch 2.13.0 for the CPU (540 MB to download)";
        let wanted = Wanted { name: "libtorch", inputs: &inputs, label, done: "downloaded" };
        let folder = setup::obtain(xtask, wanted, |run, at| fill(run, &Python::bare(xtask)?, at))?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives a cargo command what torch-sys asks for.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for other in ["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC"] {
            command.env_remove(other);
        }
        command.env("LIBTORCH", self.folder.join("torch"))
    }
}

/// Downloads the wheels into `at/wheels`, where an earlier attempt may have left some, and unpacks them.
fn fill(run: &Run, python: &Python, at: &Path) -> Result<()> {
    let requirements = at.join("requirements.txt");
    let (wheels, temporary) = (at.join("wheels"), at.join("tmp"));
    crate::cache::write_whole(&requirements, REQUIREMENTS.as_bytes())?;
    fs::create_dir_all(&temporary).with_context(|| format!("folder: {}", temporary.display()))?;
    let mut download = python.pip("download");
    download.args(["--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"]);
    download.args(["--implementation", "cp", "--abi", "cp311"]);
    for platform in ["manylinux_2_28", "manylinux_2_25", "manylinux_2_17", "manylinux2014"] {
        download.args(["--platform", &format!("{platform}_{MACHINE}")]);
    }
    download.arg("--requirement").arg(&requirements).arg("--dest").arg(&wheels);
    // /tmp may be a small memory file system.
    run.check(download.env("TMPDIR", &temporary))?;
    let files: Vec<PathBuf> = fs::read_dir(&wheels)?.flatten().map(|entry| entry.path()).collect();
    run.step.update("unpacking");
    let mut unpack = Command::new(&python.program);
    unpack.args(["-c", UNPACK]).arg(at).args(MEMBERS).arg("--").args(files);
    run.check(&mut unpack)?;
    crate::cache::write_whole(&at.join("torch/lib/libtorch.so"), LIBTORCH_SO.as_bytes())?;
    for folder in [wheels, temporary] {
        fs::remove_dir_all(&folder).with_context(|| format!("folder: {}", folder.display()))?;
    }
    Ok(())
}
