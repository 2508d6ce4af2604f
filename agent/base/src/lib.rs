//! What every part of the agent may use: text that somebody else chose, files where anybody may write, waits
//! that end, secrets, clocks. It knows nothing of phases and of the kernel's programs.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod clock;
pub mod guarded;
pub mod json;
pub mod memory;
pub mod out;
pub mod patient;
pub mod privileges;
pub mod secrets;
pub mod tasks;
pub mod untrusted;
