//! Reads a closed table back, batch by batch.
//!
//! Yields its record batches, or what is wrong with the file. Where the columns claim to lie is checked before the
//! library reads there: it takes positions on trust and panics on those of a damaged file. It knows no columns.

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::array::RecordBatch;
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    },
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};

use super::row_groups::RowGroups;

/// Rows decoded at once. Columns are put into the rows one after the other, so a batch of phases, 0.7 KB each, should stay in
/// the caches of a core meanwhile; and arrays of 4 KB come from the allocator's pool, where larger ones would each be mapped.
const BATCH_ROWS: usize = 512;

/// The batches of a closed file. After an error it is not used again.
pub(super) struct Closed(ParquetRecordBatchReader);

impl Closed {
    /// Reads what the file says about itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn open(file: File) -> Result<Self, String> {
        let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
        guarded(|| {
            let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())
                .map_err(|error| error.to_string())?;
            if !is_consistent(metadata.metadata(), file_bytes) {
                return Err("a column lies outside the file".to_owned());
            }
            let groups = RowGroups::new(file, file_bytes, metadata.metadata());
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(groups, metadata);
            builder.with_batch_size(BATCH_ROWS).build().map(Self).map_err(|error| error.to_string())
        })
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        guarded(|| self.0.next().transpose().map_err(|error| error.to_string()))
    }
}

/// What the checks let through and the library still does not survive must not end the program.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("the reading library panicked".to_owned()))
}

/// Every column of every group lies inside the file.
fn is_consistent(metadata: &ParquetMetaData, file_bytes: u64) -> bool {
    let inside = |column: &ColumnChunkMetaData| {
        let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let (begin, length) = (u64::try_from(begin), u64::try_from(column.compressed_size()));
        begin.is_ok_and(|begin| length.is_ok_and(|length| begin.saturating_add(length) <= file_bytes))
    };
    metadata.row_groups().iter().all(|group| group.num_rows() >= 0 && group.columns().iter().all(inside))
}
