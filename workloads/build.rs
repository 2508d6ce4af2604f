//! Gives the binary an rpath, so that it finds libtorch without LD_LIBRARY_PATH: the folder that torch-sys
//! linked against, and before it `lib` beside the binary, so that a folder copied into a guest works as well.
//! Links libtorch's part for CUDA where there is one. It does not look for libtorch itself: torch-sys's build
//! script does.

use std::path::Path;

/// The program calls nothing of this library: it adds itself to libtorch when it is loaded. So the linker,
/// which keeps what is needed, would drop it, and libtorch would know of no GPU.
const CUDA: &str = "-Wl,--push-state,--no-as-needed,-ltorch_cuda,--pop-state";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    // `links = "tch"` in torch-sys makes its `cargo:libtorch_lib=` this variable.
    println!("cargo:rerun-if-env-changed=DEP_TCH_LIBTORCH_LIB");
    if let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/lib:{}", folder.display());
        if Path::new(&folder).join("libtorch_cuda.so").exists() {
            println!("cargo:rustc-link-search=native={}", folder.display());
            for kind in ["bins", "tests"] {
                println!("cargo:rustc-link-arg-{kind}={CUDA}");
            }
        }
    }
}
