//! Data model and analysis: records from the BPF programs, phases paired from them, the typical request,
//! causes, comparisons of platforms with their statistics. Pure: no files, no clocks, no threads.

// Text from outside leaves only by `untrusted`, `json` and `out`, and nothing here is impure: see
// .clippy.toml.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests print and read what they like"
    )
)]

pub mod analyze;
pub mod health;
pub mod hints;
pub mod limits;
pub mod phase;
pub mod record;
pub mod sources;

use guestscope_base::untrusted;
