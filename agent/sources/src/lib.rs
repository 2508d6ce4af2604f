//! Sources of phases: a module for each, with the files that it gives to a started program, and its limits.
//!
//! All sources yield edges, and use the contract of edges only. Downstream a phase's source is a label, but
//! for what its time on no thread is called, and for Python's requests, which carry when they arrived. The
//! BPF programs of a source are attached elsewhere.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

mod carried;
pub mod driver;
pub mod function;
mod injection;
mod itt;
pub mod mapped;
mod marker;
mod nvtx;
mod otel;
pub mod procfs;
mod python;
mod report;
mod selected;
pub mod socket;
mod source;

use guestscope_base::{clock, guarded, tasks, untrusted, wildcard};
use guestscope_kernel::{descriptors, failure, loader, probes};
use guestscope_model::{health, phase, record};

pub use guestscope_model::sources::{Kind, Report};

pub use self::{
    report::{possible, report},
    selected::{SWITCHED, Selected},
    source::{Inherited, Source, Unpacked, Variable, Wish, Wishes},
};

/// Reads one word of `--sources`; none for `none`.
///
/// # Errors
/// There is no such source; the text is for people.
pub fn wish(word: &str) -> Result<Option<Wish>, String> {
    let (name, detail) = word.split_once(':').map_or((word, None), |(name, detail)| (name, Some(detail)));
    if word == "none" {
        return Ok(None);
    }
    let kind = Kind::by_name(name).filter(|kind| *kind == Kind::Marker || SWITCHED.contains(kind));
    let known = || SWITCHED.map(Kind::name).join(", ");
    let kind = kind.ok_or_else(|| format!("none of {} and none", known()))?;
    Ok(Some(Wish { kind, detail: detail.map(str::to_owned) }))
}

#[cfg(test)]
mod tests;
