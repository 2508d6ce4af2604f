//! Makes the BPF object that travels inside the agent, in OUT_DIR: by a nested cargo run with the nightly
//! that aya-build picks (build-std).

use std::{env, fs, path::Path};

use anyhow::Context as _;
use guestscope_carry::{BUILD_DIR, Places, nested_folder, pack};

/// Names the toolchain that builds the BPF object.
const NIGHTLY: &str = "GUESTSCOPE_NIGHTLY";

fn main() -> anyhow::Result<()> {
    let Places { manifest, out } = Places::of_this_script()?;
    let ebpf = manifest.join("../../ebpf");
    let ebpf = ebpf.to_str().context("the path of the workspace is not UTF-8")?;
    // `cargo xtask` names the pinned nightly where it has another name.
    println!("cargo:rerun-if-env-changed={NIGHTLY}");
    let nightly = env::var(NIGHTLY).unwrap_or_else(|_| "nightly".to_owned());
    // SAFETY: this thread is the only one.
    unsafe { env::set_var(BUILD_DIR, nested_folder(&out, "probes")) };
    aya_build::build_ebpf(
        [aya_build::Package { name: "guestscope-ebpf", root_dir: ebpf, ..aya_build::Package::default() }],
        aya_build::Toolchain::Custom(&nightly),
    )
    .context("building the BPF object: `cargo xtask demo` and `cargo xtask test` install what it needs")?;
    strip(&out.join("probes")).context("stripping the BPF object")?;
    pack(&out.join("probes"))
}

/// Takes out what only debuggers read, three quarters of the object: the kernel and the loader want .BTF and
/// .BTF.ext. It would lie in the agent's memory, and be parsed at each start.
fn strip(path: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(path)?;
    let mut object = object::build::elf::Builder::read(bytes.as_slice())?;
    for section in &mut object.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    object.delete_orphans();
    // LLVM keeps the names of sections among those of symbols; what writes here wants them apart.
    let names = object.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = object::build::elf::SectionData::SectionString;
    let mut stripped = Vec::new();
    object.write(&mut stripped)?;
    fs::write(path, stripped)?;
    Ok(())
}
