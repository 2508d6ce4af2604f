//! Outputs besides the run folder: traces, files for other programs, and text for people.
//!
//! A sink takes finished requests or a summary and writes one format. It never calls an earlier stage.

pub use guestscope_export::{metrics, otlp, perfetto};
pub use guestscope_render::{html, terminal};
