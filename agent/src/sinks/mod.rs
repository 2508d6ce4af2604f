//! Outputs beside the run folder: traces, files for other programs, and text for people.
//!
//! A sink takes finished requests or a summary and knows one format. It never calls an earlier stage.

pub mod otlp;
pub mod perfetto;
pub mod terminal;
