//! What only a whole machine of its own can bear, and injected faults on the kernel that it runs: CPUs that
//! go away and come back, clocks that are set, pauses of the whole, what is seen without BTF or without BPF.
//! Run by `cargo xtask vm`; feature `guest-tests`.
//!
//! The programs under observation are the stalls, whose log is the truth. What is compared, and how, is the
//! truth suite's of the end-to-end tests, which is part of this one.
#![cfg(target_os = "linux")]

mod clocks;
mod disposable;
mod hotplug;
mod pauses;
mod reduced;
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
