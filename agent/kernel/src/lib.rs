//! This kernel and guestscope's BPF programs: properties and permissions of the kernel, hooks, loading and
//! attaching, records from the rings, targets to attach to, and detection of restorations of the guest.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod attach;
mod carried;
pub mod descriptors;
pub mod facts;
pub mod failure;
pub mod loader;
pub mod own_mappings;
pub mod probes;
pub mod pump;
pub mod restore;
pub mod watched;

pub use carried::EMPTY;
use guestscope_base::{clock, guarded, mounts, out, patient, tasks, untrusted};
use guestscope_model::{health, phase, record};
use guestscope_platform as platform;
