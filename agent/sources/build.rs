//! Makes what sources put beside a program, all into OUT_DIR: the marker's shared libraries, the list of
//! Python files, the tables of presets and of drivers.
//!
//! The libraries are built by nested cargo runs. They need one unstable feature, thread-local storage without
//! a libc.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use guestscope_carry::{Places, nested_cargo, pack, run, table};

fn main() -> anyhow::Result<()> {
    let Places { manifest, out } = Places::of_this_script()?;
    table(&manifest.join("src/function/sources.toml"), &out.join("sources.json"))
        .context("the table of presets")?;
    table(&manifest.join("src/driver/drivers.toml"), &out.join("drivers.json"))
        .context("the table of drivers")?;
    let marker = manifest.join("../marker");
    python(&marker.join("python"), &out).context("listing the Python files")?;
    shared_library(&marker, "cdylib", "libguestscope.so", &out).context("building the marker's library")?;
    let injection = "libguestscope_inject.so";
    shared_library(&marker, "inject", injection, &out).context("building the library for NVTX and ITT")?;
    pack(&out.join(injection))
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
    let (mut cargo, built) = nested_cargo(&marker.join(crate_), &target, out, crate_)?;
    run(cargo.env("RUSTC_BOOTSTRAP", "1"))?;
    fs::copy(built.join(file), out.join(file))?;
    Ok(())
}
