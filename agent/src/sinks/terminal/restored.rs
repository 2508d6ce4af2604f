//! That the guest was restored from a snapshot or moved while it was observed: a line of the summary, a list for programs.
//!
//! What is told is when the agent noticed it, which is after the fact. It looks at nothing itself.

use std::time::Duration;

use serde::Serialize;

use super::{
    facts::RunFacts,
    health_lines::{duration_of, fact},
    json::ns,
    page::{Emphasis, Page},
};
use crate::phase::Restored;

/// So many times are listed for people.
const LISTED: usize = 3;

#[derive(Serialize)]
pub(super) struct RestoredJson {
    source: &'static str,
    /// CLOCK_MONOTONIC.
    noticed_ns: u64,
    /// After the start of the program, or after attaching.
    after_ns: u64,
}

/// All that was told.
pub(super) fn json(facts: &RunFacts) -> Vec<RestoredJson> {
    let of = |(after, restored): &(Duration, Restored)| RestoredJson {
        source: restored.source.name(),
        noticed_ns: restored.noticed_ns,
        after_ns: ns(after.as_nanos()),
    };
    facts.restored.iter().map(of).collect()
}

/// One line where anything was.
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
