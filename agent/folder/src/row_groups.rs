//! Reads a closed table's file a group of rows at a time.
//!
//! The library asks for each page of each column on its own: two system calls and two buffers for some
//! hundred bytes, and a run of 10,000 requests has 570 of them. Here a group is read at once and pages are
//! parts of it. One group is kept; one larger than this program writes is read page by page.

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt as _,
    sync::{Mutex, PoisonError},
};

use bytes::{Buf as _, Bytes, buf::Reader};
use parquet::{
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
        reader::{ChunkReader, Length},
    },
};

/// Largest group that is kept whole, in bytes: ours have 131,072 rows of some 35 bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Bytes read for a page's header, whose length is unknown; ours take some 30 bytes.
const HEADER_BYTES: u64 = 64 << 10;

/// The file of a table.
pub(super) struct RowGroups {
    file: File,
    file_bytes: u64,
    /// Positions of the groups that are small enough to keep, in order.
    ranges: Vec<Range<u64>>,
    /// The last one that was read, and where it begins.
    kept: Mutex<(u64, Bytes)>,
}

impl RowGroups {
    /// A file of this size; the positions of its groups have been checked.
    pub(super) fn new(file: File, file_bytes: u64, metadata: &ParquetMetaData) -> Self {
        let mut ranges: Vec<_> = metadata.row_groups().iter().filter_map(range).collect();
        ranges.sort_by_key(|range| range.start);
        // In a damaged file two groups may overlap, and would be read alternately, again and again.
        ranges.dedup_by(|next, kept| next.start < kept.end);
        Self { file, file_bytes, ranges, kept: Mutex::new((0, Bytes::new())) }
    }

    /// Returns at least `least_bytes` from `start`; up to the group's end if the group is kept.
    fn from(&self, start: u64, least_bytes: u64) -> Result<Bytes> {
        let end = start.checked_add(least_bytes).filter(|end| *end <= self.file_bytes);
        let end = end.ok_or_else(|| ParquetError::EOF(format!("{least_bytes} bytes from {start}")))?;
        let Some(range) = self.range(start).filter(|range| end <= range.end) else {
            return self.read(start..end);
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != range.start || kept.1.is_empty() {
            *kept = (range.start, self.read(range.clone())?);
        }
        Ok(kept.1.slice((start - range.start) as usize..))
    }

    /// The group around `start`.
    fn range(&self, start: u64) -> Option<&Range<u64>> {
        let after = self.ranges.partition_point(|range| range.start <= start);
        let range = after.checked_sub(1).and_then(|before| self.ranges.get(before));
        range.filter(|range| start < range.end)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }
}

impl Length for RowGroups {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for RowGroups {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let left = self.file_bytes.saturating_sub(start);
        let least_bytes = if self.range(start).is_some() { 1 } else { left.min(HEADER_BYTES) };
        self.from(start, least_bytes).map(Bytes::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = self.from(start, length as u64)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Position of a group's columns; none if it is too large to keep.
fn range(group: &RowGroupMetaData) -> Option<Range<u64>> {
    let columns = group.columns().iter().map(ColumnChunkMetaData::byte_range);
    let (start, end) = columns.fold((u64::MAX, 0), |(start, end), (begin, length)| {
        (start.min(begin), end.max(begin.saturating_add(length)))
    });
    (start < end && end - start <= MOST_BYTES).then_some(start..end)
}
