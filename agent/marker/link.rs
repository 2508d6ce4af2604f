//! Link arguments of the marker's shared libraries. Yields a library with a versioned name that needs no
//! other library.
//! It deliberately links no C library: the symbols they need of one (`getenv`, `__tls_get_addr`, `strlen` and
//! the memory copies that compilers expect everywhere) are, in any version of glibc or musl, in every program
//! that can load them.

use std::env;

/// Arguments for the library with this soname; `own_path`: where this file is, from its crate.
pub(crate) fn arguments(soname: &str, own_path: &str) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={own_path}");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    // Cross builds link with the toolchain's own rust-lld, which takes its arguments without a compiler's
    // prefix.
    let direct = env::var("RUSTC_LINKER").is_ok_and(|linker| linker.ends_with("lld"));
    let soname = format!("-soname={soname}");
    // `nodelete`: threads keep state in it and an agent its probe, so a `dlclose` must not take it away.
    for argument in [&soname, "-znodelete", "-znow", "-zrelro", "-zseparate-loadable-segments"] {
        if direct {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        } else {
            println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
        }
    }
    if !direct {
        println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
        println!("cargo::rustc-cdylib-link-arg=-nostdlib");
    }
}
