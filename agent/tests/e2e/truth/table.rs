//! The rows of the table of faults.

use guestscope::analyze::Cause;

use super::run::{Run, Truth, error};
use crate::kept;

/// Faults of a run: one of twelve requests.
pub(super) const HITS: usize = 6;
/// Largest relative error of a size: invariant 4.
pub(super) const SHARE: f64 = 0.1;

/// A row of the table that is printed after all tests.
pub(crate) struct Row {
    what: String,
    cause: Cause,
    pub(super) named: usize,
    hits: usize,
    /// Injected and found size of the hit with the median error.
    median: (u64, u64),
    worst: f64,
    headline: String,
    /// Whether the headline is right.
    headed: bool,
    /// Another part of the fault was about as large.
    rivalled: bool,
    /// Other load kept the spared requests waiting as well.
    pub(super) busy: bool,
}

impl Row {
    pub(crate) fn of(run: &Run, kind: &str, what: String, (cause, truth): (Cause, Truth)) -> Self {
        let pairs = run.compare(kind, cause, truth);
        let named = pairs.iter().filter(|pair| pair.1).count();
        let worst = pairs.last().map_or(0.0, |pair| error(pair.0));
        let (hits, median) = (pairs.len(), pairs[pairs.len() / 2].0);
        let (headline, busy) = (run.headline(), run.is_busy());
        let headed = run.allows(kind, (cause, truth), &headline);
        let rivalled = run.is_rivalled(kind, truth);
        Row { what, cause, named, hits, median, worst, headline, headed, rivalled, busy }
    }

    pub(crate) fn holds(&self) -> bool {
        // One hit may coincide with another disturbance of the same size.
        let named = self.named + 1 >= self.hits && self.headed;
        self.hits == HITS && named && self.is_sized()
    }

    pub(crate) fn is_sized(&self) -> bool {
        error(self.median).abs() <= SHARE
    }

    pub(crate) fn text(&self) -> String {
        let Row { what, cause, named, hits, median, worst, headline, headed: _, rivalled, busy } = self;
        let ms = |ns: u64| ns as f64 / 1e6;
        format!(
            "{what:<34} {:<11} {named} of {hits}  {headline:<11} {:>9.3} ms {:>9.3} ms {:>7.2} % {:>7.2} %{}{}",
            cause.name(),
            ms(median.0),
            ms(median.1),
            error(*median) * 100.0,
            worst * 100.0,
            if *rivalled { "  as much on the CPU" } else { "" },
            if *busy { "  busy" } else { "" },
        )
    }
}

pub(crate) fn keep(row: String) {
    let head = format!(
        "{:<34} {:<11} named   {:<11} {:>12} {:>12} {:>9} {:>9}",
        "fault", "cause", "headline", "injected", "seen", "median", "worst"
    );
    kept::keep(head, row);
}
