//! Read-only files for every platform: libtorch, and inputs that workloads make themselves.
//!
//! Yields [`Inputs`], made once on this machine, and a disk image of both for virtual machines, cached by its
//! content. Containers see the same folders read-only.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::plan::Workload;
use crate::{
    Xtask,
    cache::{hash, remove_folder, write_whole},
    command::Run,
    libtorch::Libtorch,
    process, setup,
};

/// Variable of the folder in which the workloads look for inputs from earlier runs.
pub(super) const VARIABLE: &str = "XDG_CACHE_HOME";
/// Folders on the image: libtorch and inputs.
const LIBTORCH: &str = "libtorch";
const INPUTS: &str = "inputs";
/// Parts of libtorch that a running program needs; headers are left out.
const PARTS: [&str; 2] = ["torch/lib", "nvidia"];
/// Space beside the content: metadata of the file system.
const SPARE_BYTES: u64 = 64 << 20;

/// Inputs that the workloads of a plan have made.
pub(super) struct Inputs(PathBuf);

impl Inputs {
    /// Runs each workload that makes its inputs once, unobserved, unless it ran before.
    pub(super) fn ensure(xtask: &Xtask, program: &Path, workloads: &[&Workload]) -> Result<Self> {
        let lab = xtask.workspace.target.join("lab");
        let (folder, made) = (lab.join(".inputs"), lab.join(".inputs-made"));
        for folder in [&folder, &made] {
            fs::create_dir_all(folder).with_context(|| format!("folder: {}", folder.display()))?;
        }
        let of_program = identity(program)?;
        for workload in workloads.iter().filter(|workload| workload.inputs) {
            let words: Vec<&str> = workload.command.iter().map(String::as_str).collect();
            let stamp = made.join(hash(&[&[of_program.as_str()], words.as_slice()].concat()));
            if stamp.exists() {
                continue;
            }
            let step = xtask.progress.step(format!("inputs of {}", workload.name));
            let log = xtask.log("lab-inputs");
            let run = Run { step: &step, log: &log, limit: Duration::from_secs(workload.limit_s) };
            let mut command = Command::new(program);
            command.args(words).env(VARIABLE, &folder);
            process::end_with_parent(&mut command);
            if let Err(error) = run.check(&mut command) {
                step.failed();
                return Err(error);
            }
            step.done("made");
            write_whole(&stamp, b"")?;
        }
        Ok(Self(folder))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }
}

/// Identifies a version of a file without reading it.
fn identity(file: &Path) -> Result<String> {
    let data = fs::metadata(file).with_context(|| format!("file: {}", file.display()))?;
    Ok(format!("{} {} {}", data.len(), data.mtime(), data.mtime_nsec()))
}

/// Environment of programs in a guest, with the image's mount point.
pub(super) fn environment(mounted: &str) -> [(String, String); 2] {
    [
        ("LD_LIBRARY_PATH".to_owned(), format!("{mounted}/{LIBTORCH}/torch/lib")),
        (VARIABLE.to_owned(), format!("{mounted}/{INPUTS}")),
    ]
}

/// The image; made if there is none with this content.
pub(super) fn image(xtask: &Xtask, libtorch: Option<&Libtorch>, inputs: &Inputs) -> Result<PathBuf> {
    let mut files = below(inputs.folder(), Path::new(""), INPUTS)?;
    for part in PARTS {
        let Some(libtorch) = libtorch else { break };
        files.extend(below(libtorch.folder(), Path::new(part), LIBTORCH)?);
    }
    let mut words = Vec::new();
    for (from, to) in &files {
        words.extend([to.display().to_string(), identity(from)?]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let folder = xtask.workspace.target.join("lab").join(".shared");
    let disk = folder.join(format!("{}.ext4", &hash(&words)[..16]));
    if disk.exists() {
        xtask.progress.present("disk that the guests share", "present");
        return Ok(disk);
    }
    let content = folder.join("content");
    remove_folder(&content)?;
    let mut bytes = SPARE_BYTES;
    for (from, to) in &files {
        bytes += link(from, &content.join(to))?;
    }
    fs::create_dir_all(&content).with_context(|| format!("folder: {}", content.display()))?;
    let partial = disk.with_extension("partial");
    File::create(&partial)?.set_len((bytes + bytes / 8).next_multiple_of(4096))?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d"]);
    make.arg(&content).arg(&partial);
    setup::command(xtask, "disk that the guests share", "shared-disk", "made", &mut make)?;
    fs::remove_dir_all(&content).with_context(|| format!("folder: {}", content.display()))?;
    fs::rename(&partial, &disk).with_context(|| format!("disk: {}", disk.display()))?;
    Ok(disk)
}

/// Every file below `root/part`, with its place on the image, in order.
fn below(root: &Path, part: &Path, to: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let folder = root.join(part);
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("folder: {}", folder.display()))? {
        let entry = entry?;
        let part = part.join(entry.file_name());
        if entry.path().is_dir() {
            files.extend(below(root, &part, to)?);
        } else {
            files.push((entry.path(), Path::new(to).join(part)));
        }
    }
    files.sort();
    Ok(files)
}

/// Hard-links or copies; takes no space on one file system. Returns the file's size.
fn link(from: &Path, to: &Path) -> Result<u64> {
    let what = || format!("linking {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(what)?;
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).with_context(what)?;
    }
    Ok(fs::metadata(to).with_context(what)?.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{below, environment, identity, link};

    #[test]
    fn what_goes_onto_the_image_is_found_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("torch/lib")).unwrap();
        fs::write(at.join("torch/lib/b.so"), "b").unwrap();
        fs::write(at.join("torch/lib/a.so"), "aa").unwrap();
        fs::write(at.join("torch/header"), "").unwrap();
        let files = below(at, "torch/lib".as_ref(), "libtorch").unwrap();
        let places: Vec<_> = files.iter().map(|(_, to)| to.to_str().unwrap()).collect();
        assert_eq!(places, ["libtorch/torch/lib/a.so", "libtorch/torch/lib/b.so"]);
        assert_eq!(link(&files[0].0, &at.join("x/y")).unwrap(), 2);
        let before = identity(&files[0].0).unwrap();
        fs::write(&files[0].0, "aaa").unwrap();
        assert_ne!(before, identity(&files[0].0).unwrap());
    }

    #[test]
    fn guests_are_told_where() {
        let told = environment("/s").map(|(name, value)| format!("{name}={value}"));
        assert_eq!(told, ["LD_LIBRARY_PATH=/s/libtorch/torch/lib", "XDG_CACHE_HOME=/s/inputs"]);
    }
}
