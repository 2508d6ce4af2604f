//! Tests that need a machine of their own, and injected faults on its kernel: CPU hotplug, clocks that are
//! set, pauses of the whole machine, runs without BTF or without BPF. Run by `cargo xtask vm`; feature
//! `guest-tests`.
//!
//! The observed programs are stalls, whose log is the truth. The comparison is that of the end-to-end tests'
//! truth suite, which is compiled into this one.
#![cfg(target_os = "linux")]

mod clocks;
mod disposable;
mod hotplug;
mod pauses;
mod reduced;
mod resident;
mod restored;

#[path = "../e2e/folder.rs"]
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod folder;
#[path = "../e2e/ground.rs"]
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod ground;
#[path = "../e2e/kept.rs"]
mod kept;
#[path = "../e2e/running.rs"]
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod running;
#[path = "../e2e/truth/mod.rs"]
mod truth;
#[path = "../e2e/watching.rs"]
#[expect(dead_code, reason = "the end-to-end tests use more of it")]
mod watching;
