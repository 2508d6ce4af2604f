//! guestscope's agent: charges every nanosecond of every phase of a program to what the kernel did with it.
//!
//! Modules in the order of the data's way: the kernel's facts, the probes, the pump, the pure phases, then folder,
//! sinks and analysis. ARCHITECTURE.md has the picture and the invariants.

pub mod analyze;
pub mod health;
pub mod phase;
pub mod platform;
pub mod run;
pub mod sinks;
