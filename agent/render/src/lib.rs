//! Output for people: a run's summary, explanations and comparisons as text for terminals and as JSON; a
//! report as a page for browsers.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod html;
mod looks;
pub mod terminal;

use guestscope_base::{json, privileges, untrusted};
use guestscope_folder as run;
#[cfg(test)]
use guestscope_kernel::facts;
use guestscope_kernel::{probes, restore};
use guestscope_model::{analyze, health, hints, limits, phase, record, sources};
use guestscope_platform as platform;
