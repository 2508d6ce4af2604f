//! Text for a terminal: the summary of a run, its explanation, the doctor's findings, a progress line; and
//! the same as JSON.
//!
//! Yields text; only [`Progress`] writes, to stderr. The answer is in the first three lines, colour only adds
//! emphasis, and nothing that came from a program, a folder or a collector reaches the terminal unchecked.

mod accounts;
mod bar;
mod compared;
mod count;
mod doctor;
mod doctor_json;
mod explain;
mod facts;
mod findings;
mod gpu;
mod gpu_work;
mod health_lines;
mod helpers;
mod hidden;
#[cfg(test)]
mod hidden_tests;
mod hints;
mod inside;
mod json;
mod json_values;
mod json_wait;
mod limits;
mod page;
mod progress;
mod ranks;
mod restored;
mod self_test;
mod slowest;
mod sources;
mod starved;
mod style;
mod summary;
mod tables;
mod text;
mod threads;
mod top;
pub mod units;
mod unseen;
mod waits_for;

#[cfg(test)]
mod tests;

pub use compared::verdict as verdict_words;
pub use compared::{Compared, Sentences, render_comparison, render_comparison_json, render_self_test_json};
pub use count::Count;
pub use doctor::{Doctor, render_doctor};
pub use doctor_json::render_doctor_json;
pub use explain::syscalls::name as syscall_name;
pub use explain::{ExplainFacts, Shown, render_explanation, render_explanation_json};
pub use facts::{Exit, RunFacts};
pub use hidden::render_hidden;
pub use json::render_summary_json;
pub use progress::Progress;
pub use ranks::{RankFolder, RanksFacts, render_ranks, render_ranks_json};
pub use self_test::render_self_test;
pub use style::{Stream, Style};
pub use summary::{render_banner, render_summary};
pub use top::{TopFacts, TopLook, TopOrder, TopPiece, TopRow, TopView, render_top};
