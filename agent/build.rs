//! Makes what travels inside the agent beside the BPF object, all into OUT_DIR: the marker's shared libraries,
//! the program that asks NVIDIA's library, the table of presets.
//!
//! The first two are built by nested cargo runs with target folders of their own. The libraries need one
//! unstable feature, thread-local storage without a libc.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

fn main() -> anyhow::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    // Not that of when this script was built: it may be run for a copy of the workspace.
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?);
    table(&manifest.join("src/sources/function/sources.toml"), &out.join("sources.json"))
        .context("the table of presets")?;
    let marker = manifest.join("marker");
    python(&marker.join("python"), &out).context("listing the Python files")?;
    shared_library(&marker, "cdylib", "libguestscope.so", &out).context("building the marker's library")?;
    let injection = "libguestscope_inject.so";
    shared_library(&marker, "inject", injection, &out).context("building the library for NVTX and ITT")?;
    pack(&out.join(injection))?;
    helper(&manifest.join("nvml"), &out).context("building the program that asks NVIDIA's library")
}

/// Packs a file as the agent unpacks it: NAME.zst. The object shrinks to an eighth.
fn pack(path: &Path) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".zst");
    fs::write(name, zstd::encode_all(fs::File::open(path)?, 19)?)?;
    Ok(())
}

/// It loads a library of the guest's, so it needs the guest's C library, glibc wherever NVIDIA has a driver.
/// A build for another architecture has none to link with, and carries nothing.
fn helper(crate_: &Path, out: &Path) -> anyhow::Result<()> {
    for part in ["src", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", crate_.join(part).display());
    }
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("CARGO_CFG_TARGET_ARCH is not set")?;
    let program = out.join("guestscope-nvml");
    if env::var("HOST").context("HOST is not set")?.split('-').next() == Some(&architecture) {
        let target = format!("{architecture}-unknown-linux-gnu");
        let folder = out.join("nvml-target");
        let mut cargo = nested_cargo(crate_, &target, &folder)?;
        cargo.args(["--features", "helper", "--bin", "guestscope-nvml"]);
        // For size; the workspace's release profile is that of the workloads.
        for (key, value) in [("OPT_LEVEL", "s"), ("LTO", "fat"), ("CODEGEN_UNITS", "1"), ("PANIC", "abort")] {
            cargo.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
        }
        run(&mut cargo)?;
        fs::copy(folder.join(target).join("release/guestscope-nvml"), &program)?;
    } else {
        fs::write(&program, "")?;
    }
    pack(&program)
}

/// A table as JSON: a reader of TOML in the agent would be larger than the table.
fn table(table: &Path, out: &Path) -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed={}", table.display());
    let table: toml::Table = fs::read_to_string(table)?.parse()?;
    fs::write(out, serde_json::to_string(&table)?)?;
    Ok(())
}

/// Lists the Python files that are unpacked beside a program, all but the marker's module, as the array
/// `FILES` of `python.rs`.
fn python(folder: &Path, out: &Path) -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "py") && !path.ends_with("guestscope.py") {
                files.push(path);
            }
        }
    }
    files.sort();
    let entry = |path: &PathBuf| {
        let name = path.strip_prefix(folder)?.to_str().context("a path is not UTF-8")?;
        let path = path.to_str().context("a path is not UTF-8")?;
        Ok(format!("({name:?}, include_bytes!({path:?})),\n"))
    };
    let entries: String = files.iter().map(entry).collect::<anyhow::Result<_>>()?;
    let text = format!("static FILES: &[(&str, &[u8])] = &[\n{entries}];\n");
    Ok(fs::write(out.join("python.rs"), text)?)
}

/// The library must load in the guest's own dynamic loader, so it is built for the host's C library,
/// whichever one the agent itself is built for; it needs no version of it.
fn shared_library(marker: &Path, crate_: &str, file: &str, out: &Path) -> anyhow::Result<()> {
    for part in ["src", "Cargo.toml", "link.rs"] {
        println!("cargo:rerun-if-changed={}", marker.join(part).display());
    }
    for part in ["src", "Cargo.toml", "build.rs"] {
        println!("cargo:rerun-if-changed={}", marker.join(crate_).join(part).display());
    }
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("CARGO_CFG_TARGET_ARCH is not set")?;
    let target = format!("{architecture}-unknown-linux-gnu");
    let folder = out.join(format!("{crate_}-target"));
    let mut cargo = nested_cargo(&marker.join(crate_), &target, &folder)?;
    run(cargo.env("RUSTC_BOOTSTRAP", "1"))?;
    fs::copy(folder.join(target).join("release").join(file), out.join(file))?;
    Ok(())
}

/// A release build of the crate in this folder.
fn nested_cargo(crate_: &Path, target: &str, folder: &Path) -> anyhow::Result<Command> {
    let mut cargo = Command::new(env::var_os("CARGO").context("CARGO is not set")?);
    cargo.args(["build", "--release", "--locked", "--target", target, "--target-dir"]).arg(folder);
    cargo.current_dir(crate_);
    for name in ["RUSTC", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    Ok(cargo)
}

fn run(cargo: &mut Command) -> anyhow::Result<()> {
    let done = cargo.output().context("starting cargo")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
