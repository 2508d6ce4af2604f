//! Exports of finished requests: as traces over OTLP, or as a file for Perfetto. One module per format; none
//! calls back into the observation.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

pub mod metrics;
pub mod otlp;
pub mod perfetto;

use guestscope_base::{clock, guarded, json, percent, privileges, untrusted};
use guestscope_folder as run;
use guestscope_gpu as gpu;
use guestscope_model::{analyze, health, phase};
