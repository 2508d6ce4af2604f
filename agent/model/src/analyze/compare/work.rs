//! Whether runs did the same work: if not, a difference in time says nothing about platforms.

/// How well it is known that the work was equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// All runs have the same hash of their work.
    Equal {
        /// The hash.
        hash: String,
        /// The workload's description of itself: its name, its model.
        words: Vec<String>,
        /// Their results differ, to the bit.
        outputs_differ: bool,
    },
    /// The runs have no hash, and were started by the same command.
    SameCommand(String),
    /// They differ, or nothing is known, and the caller wanted to compare them anyway.
    Unknown(String),
}
