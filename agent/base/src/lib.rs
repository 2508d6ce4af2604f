//! What every part of the agent may use: text and files from untrusted sources, waits with a time limit,
//! secrets, clocks. Independent of phases and of BPF.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod bounded;
pub mod clock;
pub mod guarded;
pub mod hint;
pub mod json;
pub mod memory;
pub mod mounts;
pub mod out;
pub mod patient;
pub mod percent;
pub mod privileges;
pub mod secrets;
pub mod tasks;
pub mod untrusted;
pub mod wildcard;

pub use hint::Hint;
