//! Restores from a snapshot and moves of the guest during the run: a line of the summary, a list for
//! programs.
//!
//! The times are when the agent noticed them, after the fact. It reads nothing itself.

use std::time::Duration;

use serde::Serialize;

use super::{
    facts::RunFacts,
    health_lines::{duration_of, fact},
    json_values::ns,
    page::{Emphasis, Page},
};
use crate::phase::Restored;

/// Most times listed for people.
const LISTED: usize = 3;

#[derive(Serialize)]
pub(super) struct RestoredJson {
    source: &'static str,
    /// CLOCK_MONOTONIC, ns.
    noticed_ns: u64,
    /// Time after the start of the program, or after attaching.
    after_ns: u64,
}

/// All restores and moves.
pub(super) fn json(facts: &RunFacts) -> Vec<RestoredJson> {
    let of = |(after, restored): &(Duration, Restored)| RestoredJson {
        source: restored.source.name(),
        noticed_ns: restored.noticed_ns,
        after_ns: ns(after.as_nanos()),
    };
    facts.restored.iter().map(of).collect()
}

/// One line, if there were any.
pub(super) fn line(page: &mut Page, facts: &RunFacts) {
    let all = &facts.restored;
    let of = |(after, restored): &(Duration, Restored)| {
        format!("{} after the start ({})", duration_of(*after), restored.source.name())
    };
    let mut listed: Vec<String> = all.iter().take(LISTED).map(of).collect();
    if all.len() > LISTED {
        listed.push(format!("{} more", all.len() - LISTED));
    }
    if !all.is_empty() {
        let text = format!("from a snapshot, or moved to another machine; noticed {}", listed.join(", "));
        fact(page, "restored", &text, Emphasis::Warning);
    }
}
