//! What the guest is, with the evidence for it: machine, container, cores, limits, and facts for the
//! manifest.
//!
//! Yields [`Guest`]. Everything is read below a [`Root`], in bounded size; what cannot be read is unknown,
//! and nothing here fails. It reads once; [`Usage`] follows what a program does later.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

mod cgroup;
mod container;
mod cores;
mod cpuid;
mod devices;
mod evidence;
mod firmware;
mod groups;
mod guest;
mod host;
pub mod limits;
mod machine;
mod root;
pub mod topology;
mod usage;

#[cfg(any(test, feature = "samples"))]
#[allow(clippy::unwrap_used, reason = "for tests alone")]
mod samples;
#[cfg(test)]
mod tests;

pub use cgroup::{Cgroup, CpuQuota};
pub use container::Container;
pub use cores::{Cores, CpuList};
pub use cpuid::Cpuid;
pub use devices::Devices;
pub use groups::Groups;
pub use host::Host;
pub use machine::{Machine, MachineKind};
pub use root::{Root, Subject};
#[cfg(any(test, feature = "samples"))]
pub use samples::unpack;
pub use usage::Usage;

pub use self::{
    evidence::{About, Evidence},
    guest::Guest,
};

use guestscope_base::{mounts, patient, untrusted};
