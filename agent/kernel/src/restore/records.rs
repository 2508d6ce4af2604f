//! A source of restores that is read record by record.

use std::{io, os::fd::AsRawFd};

/// A source that is read record by record, without waiting.
pub(super) trait Records: AsRawFd {
    /// Name for people.
    const NAME: &'static str;

    /// Whether the next record reports a new generation. `WouldBlock` where there is none.
    fn next_tells(&mut self) -> io::Result<bool>;
}
