//! Whether runs did the same work: only then does a difference in time say anything about platforms.

/// How well it is known that they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// All name the same hash of their work.
    Equal {
        /// The hash.
        hash: String,
        /// What the workload calls itself: its name, its model.
        words: Vec<String>,
        /// Their results differ, to the bit.
        outputs_differ: bool,
    },
    /// They say nothing about it, and were started by the same command.
    SameCommand(String),
    /// They differ, or nothing is known, and the caller wanted to compare them anyway.
    Unknown(String),
}
