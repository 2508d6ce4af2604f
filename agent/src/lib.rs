//! guestscope's agent: charges every nanosecond of every phase of a program to what the kernel did with it.
//!
//! Modules in the order of the data flow: kernel facts, probes, pump, pure phases, then folder, sinks and
//! analysis. ARCHITECTURE.md has the picture and the invariants.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod attach;
pub mod child;
pub mod cli;
pub mod compare;
pub mod ctl;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod failure;
pub mod ranks;
pub mod rendezvous;
pub mod report;
pub mod run;
pub mod session;
pub mod shell;
pub mod sinks;
pub mod top;
mod values;
pub mod watch;

pub use guestscope_base::{clock, guarded, hint::told, memory, out, privileges, secrets, untrusted};
use guestscope_base::{patient, percent, tasks};
pub use guestscope_folder as folder;
pub use guestscope_gpu as gpu;
use guestscope_kernel::descriptors;
pub use guestscope_kernel::{facts, loader, probes, pump, restore};
pub use guestscope_model::{analyze, health, hints, limits, phase, record};
pub use guestscope_platform as platform;
pub use guestscope_sources::{self as sources, mapped, procfs};
