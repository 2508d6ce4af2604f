//! A line of the table of results.

use serde_json::{Value, json};

use super::ratio::Ratio;

/// One line of the table.
pub(crate) struct Row {
    /// Name of the measurement.
    pub(crate) what: String,
    /// The result, with its unit.
    pub(crate) measured: String,
    /// Ratio to what it is compared with.
    pub(crate) ratio: Option<Ratio>,
    /// What it is compared with.
    pub(crate) against: &'static str,
    /// The budget.
    pub(crate) budget: &'static str,
}

impl Row {
    /// A row without a comparison.
    pub(super) fn alone(what: impl Into<String>, measured: String, budget: &'static str) -> Self {
        Self { what: what.into(), measured, ratio: None, against: "", budget }
    }

    pub(super) fn json(&self) -> Value {
        let ratio = self.ratio.as_ref().map(|ratio| {
            json!({ "value": ratio.value, "low": ratio.low, "high": ratio.high, "of": self.against,
                    "rounds": ratio.rounds })
        });
        json!({ "what": self.what, "measured": self.measured, "ratio": ratio, "budget": self.budget })
    }
}
