//! What a comparison's output tells of.

use crate::analyze::compare::{Comparison, Declared, Work};

/// A comparison's results, and facts about the runs.
#[derive(Debug)]
pub struct Compared {
    /// The numbers.
    pub comparison: Comparison,
    /// Whether the work was equal.
    pub work: Work,
    /// Name of the key that identifies platforms.
    pub by: &'static str,
    /// Metrics and margins.
    pub declared: Declared,
    /// Notes on single runs.
    pub notes: Vec<String>,
    /// The programs marked no request: whole processes were compared.
    pub is_process: bool,
}
