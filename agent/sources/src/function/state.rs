//! State of a file, by which a change is seen.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _};

/// State of a file: number, time of change and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    number: (u64, u64),
    changed: (i64, i64),
    bytes: u64,
}

impl State {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let number = (metadata.dev(), metadata.ino());
        Self { number, changed: (metadata.ctime(), metadata.ctime_nsec()), bytes: metadata.size() }
    }
}
