//! Limits on what is read from an untrusted run folder, each with its reason.
//!
//! This program writes nothing beyond them: it stops at the limit of phases per request, and leaves out a
//! workload's description that would make a manifest too large. Exceeding a limit is an error that names what
//! was found; nothing is cut off silently. Together they stay below 300 MB, with [`crate::memory`] as the
//! last limit.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::untrusted::Untrusted;

/// A bound of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limited quantity, with its unit.
    pub what: &'static str,
    /// The most of it that is taken.
    pub most: u64,
}

const fn limit(what: &'static str, most: u64) -> Limit {
    Limit { what, most }
}

/// 1,000 histograms and a day of clock pairs are 0.4 MB; readers bound the workload's own part.
pub(crate) const MANIFEST_BYTES: Limit = limit("bytes of a manifest", 4 << 20);
/// A manifest has 15,000 values. One of JSON takes 32 bytes or more, and `compare` keeps those of all runs.
pub(crate) const MANIFEST_VALUES: Limit = limit("values in a manifest", 200_000);
/// 5,000,000 phases have 3,500 parts of columns of 150 bytes.
pub(crate) const FOOTER_BYTES: Limit = limit("bytes of a footer", 16 << 20);
/// Tables have at most 100. Columns within columns are read by recursion.
pub(crate) const COLUMNS: Limit = limit("columns", 1_000);
/// Ours have 131,072 rows.
pub(crate) const ROW_GROUPS: Limit = limit("row groups", 20_000);
/// 0.7 KB of memory each: 140,000,000 phases.
pub(crate) const CHUNKS: Limit = limit("columns of all row groups", 100_000);
/// Entries of a footer for each part of a column: encodings, statistics, names.
pub(crate) const FOOTER_ENTRIES: Limit = limit("entries of a footer", 1_000_000);
/// Written ones end at 1 MiB or 20,000 rows, whichever comes first.
pub(crate) const PAGE_BYTES: Limit = limit("bytes of a page, unpacked", 8 << 20);
/// Each column has one page unpacked at a time; all of `phases`, without zeros, are 16 MB. An export reads
/// three tables at once.
pub(crate) const PAGES_BYTES: Limit = limit("bytes of the pages of all columns, unpacked", 32 << 20);
/// A path of the kernel's: names of control groups. Marked names have 64 bytes.
pub const VALUE_BYTES: Limit = limit("bytes of a value", 4_096);
/// A name of a phase is 64 bytes at most, or a process's; the report shows thousands of them.
pub(crate) const NAME_BYTES: Limit = limit("bytes of a name", 256);
/// A page of 1 MiB has at most 262,144.
pub(crate) const DICTIONARY_VALUES: Limit = limit("words of a dictionary", 1 << 19);
/// Rows are decoded in pieces, but a message of a stream as a whole. Ours have at most 36,000 phases: 12 MB.
pub(crate) const MESSAGE_BYTES: Limit = limit("bytes of a message", 32 << 20);
/// The same, unpacked.
pub(crate) const BATCH_BYTES: Limit = limit("bytes of a batch, unpacked", 96 << 20);
/// A column of flags takes an eighth of a byte for each.
pub(crate) const BATCH_ROWS: Limit = limit("rows of a batch", 1_000_000);
/// The headers of all our columns take 20 KB.
pub(crate) const MESSAGE_HEADER_BYTES: Limit = limit("bytes of a message's header", 1 << 20);
/// A row of a real table has a time and a number of its own, 10 bytes and more in a closed file. Beside this
/// many rows a file has at most one for each of its bytes: an export writes 500 bytes for a row.
pub(crate) const FREE_ROWS: Limit = limit("rows of a table of that size", 200_000);
/// 0.7 KB of memory each, and again as much where they are looked at. The agent keeps no more itself.
pub(crate) const PHASES: Limit = limit("phases of a request", crate::phase::MOST_PHASES_PER_REQUEST as u64);
/// 8 bytes each, in all runs together, and as much again while they are sorted.
pub const REQUESTS_COMPARED: Limit = limit("requests in all runs together", 8_000_000);
/// Entries of directories in all, including unrelated ones: files of a build, for example.
pub const ENTRIES: Limit = limit("files and directories to look into", 500_000);
/// A lab's 20 platforms with 250 runs of each.
pub const FOLDERS: Limit = limit("run folders", 5_000);
/// Histograms of the agent take at most 156 kB.
pub(crate) const HISTOGRAM_BYTES: Limit = limit("bytes of a histogram", 1 << 20);
/// A page that a browser opens. 20 runs with their slowest requests have 2 MB.
pub const REPORT_BYTES: Limit = limit("bytes of a report", 32 << 20);

/// A table of 20,000,000 phases is read in a minute.
const TIME: Duration = Duration::from_mins(10);
/// For each such number of bytes on the disk the time limit grows by [`TIME`] once more.
const TIME_PER_BYTES: u64 = 1 << 30;

impl Limit {
    /// An error if `found` is above the limit.
    pub(super) fn check(self, found: u64) -> Result<(), Fault> {
        if found <= self.most { Ok(()) } else { Err(Fault::Beyond(self, found)) }
    }
}

/// Why reading a file was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file makes no sense.
    Damaged(Untrusted),
    /// A limit is exceeded: the limit, and what was found.
    Beyond(Limit, u64),
    /// Reading took longer than this.
    Late(Duration),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Fault::Damaged(Untrusted::told(what))
    }
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Fault::Damaged(Untrusted::told(what))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Damaged(what) => what.fmt(formatter),
            Fault::Beyond(Limit { what, most }, found) => {
                write!(formatter, "{what}: {found}, at most {most}")
            }
            Fault::Late(limit) => write!(formatter, "it is still being read after {} s", limit.as_secs()),
        }
    }
}

/// When to stop reading a table: counted from opening its folder, since some commands read a table several
/// times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    begun: Instant,
    limit: Duration,
}

impl Deadline {
    /// Deadline for a file that takes this much of its disk; holes count as nothing.
    pub(super) fn of(disk_bytes: u64) -> Self {
        let parts = u32::try_from(disk_bytes / TIME_PER_BYTES).unwrap_or(u32::MAX);
        Self { begun: Instant::now(), limit: TIME.saturating_mul(parts.saturating_add(1)) }
    }

    /// The same from this moment on.
    pub(super) fn since(self, begun: Instant) -> Self {
        Self { begun, ..self }
    }

    /// A deadline that has passed.
    #[cfg(test)]
    pub(super) fn past() -> Self {
        Self { begun: Instant::now(), limit: Duration::ZERO }
    }

    /// No deadline, for files that this process wrote: they must be read, however slow the disk is.
    pub(super) fn never() -> Self {
        Self { begun: Instant::now(), limit: Duration::MAX }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.begun.elapsed() < self.limit { Ok(()) } else { Err(Fault::Late(self.limit)) }
    }
}

/// Checks the number of rows that a file of this size may have.
pub(super) fn check_rows(rows: u64, file_bytes: u64) -> Result<(), Fault> {
    let most = FREE_ROWS.most.saturating_add(file_bytes);
    Limit { most, ..FREE_ROWS }.check(rows)
}
