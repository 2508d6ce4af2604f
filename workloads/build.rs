//! Gives the binary an rpath, so that it finds libtorch without LD_LIBRARY_PATH: the folder that torch-sys
//! linked against, and before it `lib` beside the binary, so that a folder copied into a guest works as well.
//! It does not look for libtorch itself: torch-sys's build script does.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    // `links = "tch"` in torch-sys makes its `cargo:libtorch_lib=` this variable.
    println!("cargo:rerun-if-env-changed=DEP_TCH_LIBTORCH_LIB");
    if let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/lib:{}", folder.display());
    }
}
