//! The manifest's record of a restoration of the guest.

use serde::{Deserialize, Serialize};

use crate::phase::Restored;

/// The guest was restored or moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoredRecord {
    /// The source that reported it: `vmgenid` or `vmclock`.
    pub source: String,
    /// CLOCK_MONOTONIC when the agent noticed it, after the fact, ns.
    pub noticed_ns: u64,
}

impl From<Restored> for RestoredRecord {
    fn from(restored: Restored) -> Self {
        Self { source: restored.source.name().to_owned(), noticed_ns: restored.noticed_ns }
    }
}
