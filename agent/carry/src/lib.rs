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

/// A release build of the crate in this folder.
///
/// # Errors
/// Cargo did not start this script.
pub fn nested_cargo(crate_: &Path, target: &str, folder: &Path) -> anyhow::Result<Command> {
    let mut cargo = Command::new(env::var_os("CARGO").context("CARGO is not set")?);
    cargo.args(["build", "--release", "--locked", "--target", target, "--target-dir"]).arg(folder);
    cargo.current_dir(crate_);
    for name in ["RUSTC", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    Ok(cargo)
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
