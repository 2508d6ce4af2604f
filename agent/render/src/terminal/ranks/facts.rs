//! What is told of ranks beside the findings.

use std::path::PathBuf;

use crate::untrusted::Untrusted;

/// Columns for a name of a program.
pub(super) const NAME: usize = 16;

/// A folder of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFolder {
    /// Its path.
    pub path: PathBuf,
    /// The run's name.
    pub name: Untrusted,
}

/// What is to be told beside the findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RanksFacts {
    /// The folders, by the numbers that ranks have.
    pub folders: Vec<RankFolder>,
    /// How far clocks of guests can be apart, ns.
    pub apart_ns: u64,
    /// Notes on folders.
    pub notes: Vec<String>,
}
