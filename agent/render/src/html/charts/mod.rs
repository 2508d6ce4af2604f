//! Charts of the report as SVG, by plotters; colours, hatches and dashes come from the page's style sheet.
//!
//! Yields markup for a page. Bars and lines have a table with their numbers, cells of moves contain theirs,
//! and single requests list their longest waits.

mod classes;
mod drawing;
mod hatch;
mod ink;
mod latencies;
mod line_looks;
mod lines;
mod matrix;
mod ratio;
mod stacked;
mod timeline;

pub(crate) use hatch::Hatch;

pub(super) use classes::classes;
pub(super) use ink::swatch;
pub(super) use latencies::{Line, largest_ns, latencies};
pub(super) use matrix::{MOST_CPUS, matrix};
pub(super) use ratio::ratio;
pub(super) use stacked::{Bar, Group, longest_ns, stacked};
pub(super) use timeline::{Level, Piece, Row, timeline};

pub use self::drawing::ChartError;
