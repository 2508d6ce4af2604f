//! Makes, in OUT_DIR, what travels inside the agent: the program that asks NVIDIA's NVML, and the library
//! that asks its CUPTI inside CUDA programs.

use std::{env, fs, path::Path};

use anyhow::Context as _;
use guestscope_carry::{Places, nested_cargo, pack, run};

fn main() -> anyhow::Result<()> {
    let Places { manifest, out } = Places::of_this_script()?;
    nvml_process(&manifest.join("../nvml"), &out)
        .context("building the program that asks NVIDIA's library")?;
    cupti_library(&manifest.join("../cupti"), &out).context("building the library that asks CUPTI")
}

/// Builds the library for the guest's own loader. It needs no version of any C library.
fn cupti_library(crate_: &Path, out: &Path) -> anyhow::Result<()> {
    let watched =
        ["src", "Cargo.toml", "inject/src", "inject/Cargo.toml", "inject/build.rs", "../marker/link.rs"];
    for part in watched {
        println!("cargo:rerun-if-changed={}", crate_.join(part).display());
    }
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("CARGO_CFG_TARGET_ARCH is not set")?;
    let target = format!("{architecture}-unknown-linux-gnu");
    let (mut cargo, built) = nested_cargo(&crate_.join("inject"), &target, out, "cupti")?;
    run(&mut cargo)?;
    let library = out.join("libguestscope_cupti_inject.so");
    fs::copy(built.join("libguestscope_cupti_inject.so"), &library)?;
    pack(&library)
}

/// Builds the NVML process. It loads a library of the guest, so it needs the guest's C library, which is
/// glibc wherever NVIDIA has a driver. A build for another architecture has no such library to link with, and
/// contains no NVML process.
fn nvml_process(crate_: &Path, out: &Path) -> anyhow::Result<()> {
    for part in ["src", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", crate_.join(part).display());
    }
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("CARGO_CFG_TARGET_ARCH is not set")?;
    let program = out.join("guestscope-nvml");
    if env::var("HOST").context("HOST is not set")?.split('-').next() == Some(&architecture) {
        let target = format!("{architecture}-unknown-linux-gnu");
        let (mut cargo, built) = nested_cargo(crate_, &target, out, "nvml")?;
        cargo.args(["--features", "helper", "--bin", "guestscope-nvml"]);
        // Optimised for size; the workspace's release profile is that of the workloads.
        for (key, value) in [("OPT_LEVEL", "s"), ("LTO", "fat"), ("CODEGEN_UNITS", "1"), ("PANIC", "abort")] {
            cargo.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
        }
        run(&mut cargo)?;
        fs::copy(built.join("guestscope-nvml"), &program)?;
    } else {
        fs::write(&program, "")?;
    }
    pack(&program)
}
