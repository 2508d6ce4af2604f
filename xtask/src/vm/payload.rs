//! The programs in every guest, which also run on this machine: the static agent and workloads as shipped,
//! and the tests with the files that they need.
//!
//! Yields the paths and, for guests, a disk image of the programs. Tests are built once for all verbs, for
//! this machine: a guest gets the few libraries that they are linked with.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::matrix::Architecture;
use crate::{
    Xtask, apt,
    arm64::Arm64,
    artifact::{self, AGENT, WORKLOADS},
    command, setup,
    toolchain::Toolchain,
};

/// The first program of a guest, the program that asks the verifier, and the programs that tests observe.
const INIT: &str = "guest_init";
const PROGRAMS: &str = "programs";
const SUBJECTS: [&str; 2] = ["kernel_subject", "e2e_subject"];
const EXAMPLES: [&str; 4] = [INIT, PROGRAMS, SUBJECTS[0], SUBJECTS[1]];
/// The stubs of GPU drivers that the kernel tests' program loads, and their files. Static programs load none.
const STUBS: [(&str, &str); 3] =
    [("cuda_stub", "libcuda_stub.so"), ("hip_stub", "libhip_stub.so"), ("ze_stub", "libze_stub.so")];
/// The kernel tests, and the tests for guests only.
pub(crate) const TESTS: [&str; 2] = ["kernel", "guest"];
/// Size of the disk. Programs take 300 MB of it; tests write files of 64 MiB. Empty blocks take no space.
const DISK_BYTES: u64 = 1 << 30;
/// Where a guest finds its disk.
pub(crate) const MOUNTED: &str = "/work";

/// Built programs.
pub(crate) struct Payload {
    pub(crate) init: PathBuf,
    /// Libraries of the tests and of the first program, by absolute path.
    pub(crate) libraries: Vec<PathBuf>,
    /// The file system with the programs.
    pub(crate) disk: PathBuf,
    /// Folder of the programs on this machine, with the layout of the disk.
    pub(crate) here: PathBuf,
}

impl Payload {
    /// Builds the programs for guests of this architecture.
    pub(crate) fn build(xtask: &Xtask, toolchain: &Toolchain, architecture: Architecture) -> Result<Self> {
        if Architecture::here() == Some(architecture) {
            return Self::of_this_machine(xtask, toolchain, architecture);
        }
        ensure!(
            architecture == Architecture::Arm64,
            "nothing is built here for guests of another processor: {}",
            architecture.name()
        );
        Self::for_arm64(xtask, toolchain)
    }

    /// A payload of these programs only, with their names, for guests of this machine's architecture. Guests
    /// get libraries of the folder `shared` elsewhere.
    pub(crate) fn of_programs(
        xtask: &Xtask,
        toolchain: &Toolchain,
        programs: &[(PathBuf, String)],
        shared: Option<&Path>,
    ) -> Result<Self> {
        let mut examples = artifact::host_cargo(xtask, toolchain, "build", &xtask.workspace.test_features());
        artifact::cargo(
            xtask,
            "first program of the guests",
            "build-guests",
            examples.args(["--example", INIT]),
        )?;
        let init = xtask.workspace.target.join("debug/examples").join(INIT);
        let folder = xtask.workspace.target.join("lab").join(".guests");
        let mut payload = Self::laid_out(xtask, &folder, programs, init)?;
        if let Some(shared) = shared {
            payload.libraries.retain(|library| !library.starts_with(shared));
        }
        Ok(payload)
    }

    fn of_this_machine(xtask: &Xtask, toolchain: &Toolchain, architecture: Architecture) -> Result<Self> {
        let agent = artifact::agent(xtask, toolchain)?;
        let workloads = artifact::static_workloads(xtask, toolchain)?;
        let features = xtask.workspace.test_features();
        let mut examples = artifact::host_cargo(xtask, toolchain, "build", &features);
        let stubs = STUBS.iter().map(|(stub, _)| stub);
        examples.args(EXAMPLES.iter().chain(stubs).flat_map(|example| ["--example", example]));
        artifact::cargo(xtask, "programs of the guests", "build-guests", &mut examples)?;
        let mut tests = artifact::host_cargo(xtask, toolchain, "test", &features);
        tests.arg("--no-run").args(TESTS.iter().flat_map(|test| ["--test", test]));
        let text = artifact::cargo(xtask, "tests of the guests", "build-guest-tests", &mut tests)?;
        let examples = xtask.workspace.target.join("debug/examples");
        Self::of(xtask, architecture, &Built { agent, workloads, examples, tests: &text })
    }

    /// All programs static; the agent and the workloads in the tests' profile, with little optimisation:
    /// these tests check correctness, not size or speed, and each dependency is built once.
    fn for_arm64(xtask: &Xtask, toolchain: &Toolchain) -> Result<Self> {
        let arm64 = Arm64::ensure(xtask, toolchain)?;
        let mut programs = arm64.cargo("build");
        programs.args(["--package", AGENT, "--bins", "--features", &arm64.features()]);
        programs.args(EXAMPLES.iter().flat_map(|example| ["--example", example]));
        artifact::cargo(xtask, "programs of guests for arm64", "build-arm64", &mut programs)?;
        let mut workloads = arm64.cargo("build");
        workloads.args(["--package", WORKLOADS]);
        artifact::cargo(xtask, "workloads for arm64", "build-arm64-workloads", &mut workloads)?;
        let mut tests = arm64.cargo("test");
        tests.args(["--package", AGENT, "--features", &arm64.features(), "--no-run"]);
        tests.args(TESTS.iter().flat_map(|test| ["--test", test]));
        let text = artifact::cargo(xtask, "tests of guests for arm64", "build-arm64-tests", &mut tests)?;
        let built = arm64.built();
        let (agent, workloads) = (built.join(AGENT), built.join(WORKLOADS));
        let examples = built.join("examples");
        Self::of(xtask, Architecture::Arm64, &Built { agent, workloads, examples, tests: &text })
    }

    fn of(xtask: &Xtask, architecture: Architecture, built: &Built) -> Result<Self> {
        let Built { agent, workloads, examples, tests } = built;
        // Tests look for the tested program beside their own folder, where cargo puts it.
        let mut places = vec![
            (agent.clone(), AGENT.to_owned()),
            (workloads.clone(), WORKLOADS.to_owned()),
            (examples.join(PROGRAMS), PROGRAMS.to_owned()),
        ];
        places.extend(SUBJECTS.map(|subject| (examples.join(subject), format!("debug/examples/{subject}"))));
        for (_, file) in STUBS {
            let stub = examples.join(file);
            if stub.exists() {
                places.push((stub, format!("debug/examples/{file}")));
            }
        }
        for test in TESTS {
            let path = executable(tests, test)
                .with_context(|| format!("cargo did not print the path of the test: {test}"))?;
            places.push((xtask.workspace.root.join(path), format!("debug/deps/{test}")));
        }
        let folder = xtask.workspace.target.join("vm").join(architecture.name());
        Self::laid_out(xtask, &folder, &places, examples.join(INIT))
    }

    /// Puts the files at their places, and makes a disk of them.
    fn laid_out(xtask: &Xtask, folder: &Path, places: &[(PathBuf, String)], init: PathBuf) -> Result<Self> {
        let here = folder.join("programs");
        for (from, to) in places {
            copy(from, &here.join(to))?;
        }
        let linked = places.iter().map(|(from, _)| from).chain([&init]);
        let libraries = libraries(linked.map(PathBuf::as_path));
        let disk = folder.join("programs.ext4");
        make_disk(xtask, &here, &disk)?;
        Ok(Self { init, libraries, disk, here })
    }
}

/// Results of the builds.
struct Built<'a> {
    agent: PathBuf,
    workloads: PathBuf,
    /// The folder of the examples.
    examples: PathBuf,
    /// Cargo's output while it built the tests.
    tests: &'a str,
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copying {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(what)?;
    fs::copy(from, to).map(drop).with_context(what)
}

/// An ext4 file system of a folder's content, made without mounting. It is a new file, since a guest of
/// another call may still use the old one.
fn make_disk(xtask: &Xtask, content: &Path, disk: &Path) -> Result<()> {
    apt::need(xtask, &["e2fsprogs"])?;
    let new = disk.with_extension("new");
    let what = || format!("file: {}", new.display());
    let file = File::create(&new).with_context(what)?;
    file.set_len(DISK_BYTES)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,root_owner=0:0", "-d"]);
    setup::command(xtask, "disk of the guests", "guest-disk", "made", make.arg(content).arg(&new))?;
    fs::rename(&new, disk).with_context(what)
}

/// All libraries that the dynamic loader would load for these programs, and the loader itself.
fn libraries<'a>(programs: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for program in programs {
        // For a static program ldd fails.
        let text = command::text(Command::new("ldd").arg(program)).unwrap_or_default();
        found.extend(linked(&text));
    }
    found.into_iter().collect()
}

/// The files in ldd's answer: `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`,
/// `/lib64/ld-linux-x86-64.so.2 (0x...)`.
fn linked(ldd: &str) -> impl Iterator<Item = PathBuf> {
    let files = ldd.lines().filter_map(|line| line.trim().rsplit_once(" (0x").map(|(file, _)| file));
    let files = files.map(|file| file.rsplit_once("=> ").map_or(file, |(_, file)| file).trim());
    // The vDSO is no file.
    files.filter(|file| file.starts_with('/')).map(PathBuf::from)
}

/// Path from a line of `cargo test --no-run`: `Executable tests/kernel/main.rs (target/.../kernel-0123)`.
fn executable<'a>(text: &'a str, test: &str) -> Option<&'a str> {
    let begin = format!("Executable tests/{test}/main.rs (");
    let line = text.lines().rfind(|line| line.trim_start().starts_with(&begin))?;
    line.trim_end().strip_suffix(')')?.rsplit_once('(').map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{executable, linked};

    #[test]
    fn cargo_names_the_test_programs() {
        let text = "   Compiling a v0.1.0 (/a)\n    Finished `test` profile\n  \
                    Executable tests/kernel/main.rs (target/x/debug/deps/kernel-0a1b)\n  \
                    Executable tests/guest/main.rs (target/x/debug/deps/guest-0a1b)\n";
        assert_eq!(executable(text, "kernel"), Some("target/x/debug/deps/kernel-0a1b"));
        assert_eq!(executable(text, "guest"), Some("target/x/debug/deps/guest-0a1b"));
        assert_eq!(executable("    Finished `test` profile\n", "kernel"), None);
    }

    #[test]
    fn what_a_program_is_linked_with_is_found() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibodd.so => not found\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(linked(text).collect::<Vec<_>>(), expected.map(|file| Path::new(file).to_owned()));
        assert_eq!(linked("\tnot a dynamic executable\n").count(), 0);
    }
}
