//! The manifest's record of a source of phases.

use serde::{Deserialize, Serialize};

use crate::sources::Report;

/// A source, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceRecord {
    /// Name, as in the column `source` of `phases`.
    pub source: String,
    /// Why the source was off; none if it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    /// Requests that it made.
    pub requests: u64,
    /// Phases within requests.
    pub phases: u64,
    /// Details on threads that were inside nothing: no phases.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// What the source found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// What the source could not do, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

impl From<&Report> for SourceRecord {
    fn from(report: &Report) -> Self {
        let words = |texts: &[crate::untrusted::Untrusted]| {
            texts.iter().map(|text| text.stored().to_owned()).collect()
        };
        Self {
            source: report.kind.name().to_owned(),
            off: report.off.clone(),
            requests: report.made.requests,
            phases: report.made.phases,
            left_out: report.made.alone,
            found: words(&report.found),
            missed: words(&report.missed),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(super) const fn is_zero(number: &u64) -> bool {
    *number == 0
}
