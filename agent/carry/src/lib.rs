//! Shared code of build scripts: builds the files that are embedded in the agent by nested cargo runs, and
//! packs them.
#![expect(clippy::print_stdout, reason = "cargo reads what build scripts print")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Directory of the build script's crate, and its output directory.
#[derive(Debug)]
pub struct Places {
    /// Folder of the crate. Not that of when the script was built: it may be run for a copy of the workspace.
    pub manifest: PathBuf,
    /// Folder of what is made.
    pub out: PathBuf,
}

impl Places {
    /// The directories of the running build script.
    ///
    /// # Errors
    /// Cargo did not start it.
    pub fn of_this_script() -> anyhow::Result<Self> {
        let place = |name: &'static str| {
            env::var_os(name).map(PathBuf::from).with_context(|| format!("{name} is not set"))
        };
        Ok(Self { manifest: place("CARGO_MANIFEST_DIR")?, out: place("OUT_DIR")? })
    }
}

/// Packs a file as the agent unpacks it: NAME.zst. The BPF object shrinks to an eighth.
///
/// # Errors
/// It cannot be read, or the other one not written.
pub fn pack(path: &Path) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".zst");
    fs::write(name, zstd::encode_all(fs::File::open(path)?, 19)?)?;
    Ok(())
}

/// A table as JSON: a reader of TOML in the agent would be larger than the table.
///
/// # Errors
/// It cannot be read, or is no TOML.
pub fn table(table: &Path, out: &Path) -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed={}", table.display());
    let table: toml::Table = fs::read_to_string(table)?.parse()?;
    fs::write(out, serde_json::to_string(&table)?)?;
    Ok(())
}

/// Variable that names cargo's folder of intermediate results.
pub const BUILD_DIR: &str = "CARGO_BUILD_BUILD_DIR";

/// The folder for intermediate results of the nested run `name`, given a build script's OUT_DIR. It is the
/// same one for all profiles and targets, so that what is built for tests is not built again for the agent.
/// Each run has its own one, lest they wait for each other.
pub fn nested_folder(out: &Path, name: &str) -> PathBuf {
    let triple = env::var("TARGET").unwrap_or_default();
    shared_folder(out, &triple).unwrap_or(out).join("nested").join(name)
}

/// Cargo's folder of all targets: OUT_DIR is there in `PROFILE/build/CRATE/out`, or below `TRIPLE`.
fn shared_folder<'a>(out: &'a Path, triple: &str) -> Option<&'a Path> {
    let above = out.ancestors().nth(4)?;
    if above.ends_with(triple) { above.parent() } else { Some(above) }
}

/// A release build of the crate in this folder, and the folder in OUT_DIR where its results will be.
///
/// # Errors
/// Cargo did not start this script.
pub fn nested_cargo(
    crate_: &Path,
    target: &str,
    out: &Path,
    name: &str,
) -> anyhow::Result<(Command, PathBuf)> {
    let folder = out.join(format!("{name}-target"));
    let mut cargo = Command::new(env::var_os("CARGO").context("CARGO is not set")?);
    cargo.args(["build", "--release", "--locked", "--target", target, "--target-dir"]).arg(&folder);
    cargo.current_dir(crate_).env(BUILD_DIR, nested_folder(out, name));
    for name in ["RUSTC", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    Ok((cargo, folder.join(target).join("release")))
}

/// Runs such a build.
///
/// # Errors
/// It fails; the text is the compiler's.
pub fn run(cargo: &mut Command) -> anyhow::Result<()> {
    let done = cargo.output().context("starting cargo")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::shared_folder;

    #[test]
    fn nested_runs_of_all_profiles_and_targets_share_a_folder() {
        for (out, folder) in [
            ("/w/target/debug/build/guestscope-kernel-12/out", Some("/w/target")),
            ("/w/target/some-triple/dist/build/guestscope-kernel-34/out", Some("/w/target")),
            ("/out", None),
        ] {
            assert_eq!(shared_folder(Path::new(out), "some-triple"), folder.map(Path::new), "{out}");
        }
    }
}
