//! Fuzz targets of everything that decodes bytes of others, `fuzz/`: a fixed number of inputs each in
//! `check`, minutes in `cargo xtask fuzz TARGET`.
//!
//! They are built without cargo-fuzz, by the host's compiler: `fuzz/rustc.sh` adds what libFuzzer needs to
//! know to the crates of this workspace, and libraries are those of the tests. Inputs that fail lie in
//! target/fuzz.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    Xtask, artifact,
    cache::remove_folder,
    command::{self, Run},
    failure::failure,
    item::{Item, Verdict},
    workspace::WORKLOADS,
};

/// The word for all of them.
const ALL: &str = "decoders";
/// Far beyond what the inputs of one target take.
const LIMIT: Duration = Duration::from_mins(5);
/// An example that is built at once, and without what libFuzzer needs to know.
const STUB: &str = "nvidia_ml_stub";
/// What an input may take, seconds and MB: the folder's reader promises 300 MB.
const LIMITS: [&str; 2] = ["-timeout=20", "-rss_limit_mb=600"];

/// A target, by its file in `fuzz/fuzz_targets`, and the inputs it gets in `check`: about a second's worth.
const TARGETS: [(&str, u32); 16] = [
    ("btf", 5_000),
    ("csv", 5_000),
    ("cupti", 50_000),
    ("elf", 10_000),
    ("histogram", 5_000),
    ("jaeger", 10_000),
    ("jpeg", 10_000),
    ("manifest", 5_000),
    ("nvml", 10_000),
    ("record", 50_000),
    ("ring", 20_000),
    ("spill", 20_000),
    ("table", 4_000),
    ("text", 1_000),
    ("tfrecord", 10_000),
    ("unwind", 50_000),
];

/// What a target is given.
#[derive(Clone, Copy)]
enum Amount {
    /// So many inputs, the same ones each time.
    Inputs(u32),
    /// New ones for so many minutes, from where the last time ended.
    Minutes(u32),
}

/// The item of `check`: all targets, one after the other.
pub(crate) fn item(xtask: &Xtask) -> Item {
    let name = "fuzz";
    let complaints = build(xtask).and_then(|()| {
        let targets = TARGETS.map(|(target, inputs)| (target, Amount::Inputs(inputs)));
        run_all(xtask, &format!("fuzz: {} decoders", targets.len()), &targets)
    });
    let verdict = match complaints {
        Ok(complaints) if complaints.is_empty() => Verdict::Passed,
        Ok(complaints) => Verdict::Failed(complaints.join("\n")),
        Err(error) => Verdict::Failed(crate::failure::render(&error)),
    };
    Item { name, verdict }
}

/// `cargo xtask fuzz TARGET... --minutes N`: so many minutes for each. Returns whether nothing went wrong.
pub(crate) fn verb(xtask: &Xtask, names: &[String], minutes: u32) -> Result<bool> {
    let mut targets = Vec::new();
    for name in names {
        let known = TARGETS.iter().filter(|(target, _)| name == ALL || name == target);
        let before = targets.len();
        targets.extend(known.map(|&(target, _)| (target, Amount::Minutes(minutes))));
        if targets.len() == before {
            let all: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
            let hint = format!("one of {}, or `{ALL}` for all of them", all.join(", "));
            return Err(failure(format!("no such fuzz target: {name}"), hint));
        }
    }
    build(xtask)?;
    let complaints = run_all(xtask, "fuzz", &targets)?;
    for complaint in &complaints {
        writeln!(std::io::stdout(), "{complaint}")?;
    }
    Ok(complaints.is_empty())
}

/// Builds all targets, and libraries of others with the features that they have for the tests of the host, so
/// that these need not build them again. Cargo leaves out those of development dependencies where no test
/// and no example is wanted, so one is.
fn build(xtask: &Xtask) -> Result<()> {
    let mut build = xtask.workspace.cargo();
    build.args(["build", "--locked", "--workspace", "--exclude", WORKLOADS, "--example", STUB]);
    build.args(["--features", &xtask.workspace.test_features().join(",")]);
    build.args(TARGETS.iter().flat_map(|(target, _)| ["--bin".to_owned(), format!("fuzz_{target}")]));
    build.env("RUSTC_WORKSPACE_WRAPPER", xtask.workspace.root.join("fuzz/rustc.sh"));
    artifact::cargo(xtask, "fuzz targets", "build-fuzz", &mut build).map(drop)
}

/// What went wrong, target by target.
fn run_all(xtask: &Xtask, label: &str, targets: &[(&str, Amount)]) -> Result<Vec<String>> {
    let memory = Memory::new(xtask)?;
    let step = xtask.progress.step(label);
    let mut complaints = Vec::new();
    for (target, amount) in targets {
        let log = xtask.log(&format!("fuzz-{target}"));
        let limit = match amount {
            Amount::Inputs(_) => LIMIT,
            Amount::Minutes(minutes) => LIMIT + Duration::from_mins(u64::from(*minutes)),
        };
        step.update(target);
        let mut fuzzer = fuzzer(xtask, target, *amount)?;
        let finished = Run { step: &step, log: &log, limit }.finish(fuzzer.env("TMPDIR", &memory.0))?;
        if finished.timed_out || !finished.status.success() {
            complaints.push(complaint(xtask, target, &finished.text, &log));
        }
    }
    if complaints.is_empty() {
        step.done("no fault");
    } else {
        step.failed();
    }
    Ok(complaints)
}

fn fuzzer(xtask: &Xtask, target: &str, amount: Amount) -> Result<Command> {
    let folder = xtask.workspace.target.join("fuzz").join(target);
    let inputs = folder.join("inputs");
    if matches!(amount, Amount::Inputs(_)) {
        // What an earlier time has found would make another run of it.
        remove_folder(&inputs)?;
    }
    fs::create_dir_all(&inputs).with_context(|| format!("folder: {}", inputs.display()))?;
    let mut fuzzer = Command::new(xtask.workspace.target.join("debug").join(format!("fuzz_{target}")));
    fuzzer.args(LIMITS).arg(format!("-artifact_prefix={}/", folder.display()));
    match amount {
        Amount::Inputs(inputs) => fuzzer.args(["-seed=1".to_owned(), format!("-runs={inputs}")]),
        Amount::Minutes(minutes) => fuzzer.arg(format!("-max_total_time={}", minutes * 60)),
    };
    // New inputs go to the first folder.
    fuzzer.arg(inputs).arg(xtask.workspace.root.join("fuzz/seeds").join(target));
    Ok(fuzzer)
}

fn complaint(xtask: &Xtask, target: &str, text: &str, log: &Path) -> String {
    let input = text.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file);
    let again = input.map_or_else(String::new, |input| {
        let program = xtask.workspace.target.join("debug").join(format!("fuzz_{target}"));
        format!("\n  again: GUESTSCOPE_FUZZ_PANICS=1 {} {input}", program.display())
    });
    format!("{target}:\n{}\n  whole output: {}{again}", command::tail(text), log.display())
}

/// Where targets put the folders that they read: in memory where there is some, since each input is a file.
struct Memory(PathBuf);

impl Memory {
    fn new(xtask: &Xtask) -> Result<Self> {
        let name = format!("guestscope-fuzz-{}", process::id());
        let places = [PathBuf::from("/dev/shm"), xtask.workspace.target.clone()];
        let made =
            places.into_iter().map(|place| place.join(&name)).find(|place| fs::create_dir(place).is_ok());
        made.map(Self)
            .ok_or_else(|| failure("no place for the files of fuzz targets", "make room in /dev/shm"))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // It is ours, and in memory: what cannot be removed does no harm.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::workspace::Workspace;

    /// Files are targets, targets have seeds, and cargo knows them all.
    #[test]
    fn every_target_is_run_and_has_seeds() {
        let root = Workspace::load().unwrap().root.join("fuzz");
        let stems = |folder: &str| {
            let entries = fs::read_dir(root.join(folder)).unwrap().flatten();
            let mut stems: Vec<_> =
                entries.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned())).collect();
            stems.sort();
            stems
        };
        let targets: Vec<_> = super::TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
        assert_eq!(stems("fuzz_targets"), targets);
        assert_eq!(stems("seeds"), targets);
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        for target in targets {
            assert!(manifest.contains(&format!("name = \"fuzz_{target}\"")), "{target}");
            assert!(fs::read_dir(root.join("seeds").join(&target)).unwrap().count() > 0, "{target}");
        }
    }
}
