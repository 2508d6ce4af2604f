//! The section of `manifest.json` that lists `histograms/`.
//!
//! Plain serde structs; the files themselves are written and read elsewhere.

use serde::{Deserialize, Serialize};

/// Index of the histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histograms {
    /// Shorter durations are not distinguished, ns.
    pub lowest_ns: u64,
    /// Durations above it count as this, ns.
    pub highest_ns: u64,
    /// Significant decimal digits.
    pub digits: u8,
    /// Phases without a histogram: their names came after the first 1,000.
    pub others: u64,
    /// The files.
    pub entries: Vec<HistogramEntry>,
}

/// One histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistogramEntry {
    /// Kind of its phases; `workload` for one that the workload measured itself.
    pub kind: String,
    /// Name of its phases, or the workload's own word.
    pub name: String,
    /// File name inside `histograms/`.
    pub file: String,
    /// Phases in it, or whatever the workload counted.
    pub count: u64,
}
