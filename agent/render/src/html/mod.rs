//! A report as one HTML page that needs nothing but a browser.
//!
//! Charts are drawn as SVG, so that the page runs no script, asks no network, prints, and opens at once.

mod axes;
mod charts;
mod moments;
mod page;
mod report;

pub use charts::ChartError;
pub(crate) use charts::Hatch;
pub use moments::{Looked, Moment, Why};
pub use page::Page;
pub use report::{Member, Report, View};
