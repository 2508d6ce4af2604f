//! Builds the BPF object into OUT_DIR, with the toolchain that aya-build picks (nightly, for build-std).

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ebpf");
    println!("cargo:rerun-if-changed={}", root.join("src").display());
    let root = root.to_str().context("the path of the workspace is not UTF-8")?;
    aya_build::build_ebpf(
        [aya_build::Package { name: "guestscope-ebpf", root_dir: root, ..aya_build::Package::default() }],
        aya_build::Toolchain::default(),
    )
    .context("building the BPF object: `cargo xtask demo` and `cargo xtask test` install what it needs")
}
