//! What people read in a terminal: the summary of a run, the doctor's findings, a progress line; and the same as JSON.
//!
//! Yields text; only [`Progress`] writes, to stderr. The answer stands in the first three lines, colour only adds
//! emphasis, and nothing that came from a program, a folder or a collector reaches the terminal unchecked.

mod accounts;
mod bar;
mod doctor;
mod doctor_json;
mod facts;
mod findings;
mod health_lines;
mod helpers;
mod json;
mod page;
mod progress;
mod restored;
mod slowest;
mod style;
mod summary;
mod tables;
mod text;
mod units;
mod unseen;

#[cfg(test)]
mod tests;

pub use doctor::{Doctor, render_doctor};
pub use doctor_json::render_doctor_json;
pub use facts::{Exit, RunFacts};
pub use json::render_summary_json;
pub use progress::Progress;
pub use style::{Stream, Style};
pub use summary::{render_banner, render_summary};
