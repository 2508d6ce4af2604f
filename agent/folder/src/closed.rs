//! Reads a closed table, batch by batch.
//!
//! Yields its record batches, or what is wrong with the file. Positions and sizes that the file claims are
//! checked first: the library trusts them. Of the columns it only uses whether one is empty by the file's
//! statistics. Damage inside a column that is left out is not seen.

use std::{collections::HashSet, fs::File, sync::Arc, time::Instant};

use arrow::array::RecordBatch;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
            ParquetRecordBatchReaderBuilder,
        },
    },
    basic::Type,
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData},
        statistics::Statistics,
    },
};

use super::{
    caught::caught,
    footer,
    limits::{COLUMNS, Deadline, Fault, check_rows},
    opening::{disk_bytes, held_bytes},
    pages,
    row_groups::RowGroups,
};

/// Rows decoded at once. Rows are filled column by column, so a batch of phases, 0.7 KB each, should stay in
/// a core's caches. Larger arrays cost more as well: musl's allocator maps and unmaps memory for each, and
/// the kernel clears it.
pub(super) const BATCH_ROWS: usize = 512;

/// Content of a column that need not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// Zero, or `false`, in every row.
    Zeros,
    /// Nothing, in every row.
    Nulls,
}

/// The batches of a closed file. After an error it is not used again.
pub(super) struct Closed {
    batches: ParquetRecordBatchReader,
    /// The batch before. As long as its arrays live, musl's allocator keeps some of the memory that the next
    /// ones take.
    before: Option<RecordBatch>,
    deadline: Deadline,
}

impl Closed {
    /// Reads the file's metadata. `is_left_out` is asked about each column, with its content if that is
    /// empty; batches lack the columns for which it answers yes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn open(
        file: File,
        begun: Instant,
        mut is_left_out: impl FnMut(&str, Option<Empty>) -> bool,
    ) -> Result<Self, Fault> {
        let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let deadline = Deadline::of(disk_bytes(&file)).since(begun);
        let held_bytes = held_bytes(&file);
        guarded(|| {
            let metadata = footer::read(&file, file_bytes)?;
            check(&metadata, file_bytes, held_bytes)?;
            let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::default())
                .map_err(|error| error.to_string())?;
            let read = wanted(metadata.metadata(), &mut is_left_out)?;
            pages::check(&file, metadata.metadata(), &read, &deadline)?;
            let groups = RowGroups::new(file, file_bytes, metadata.metadata());
            let read = ProjectionMask::leaves(metadata.parquet_schema(), read);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(groups, metadata);
            let built = builder.with_projection(read).with_batch_size(BATCH_ROWS).build();
            built
                .map(|batches| Self { batches, before: None, deadline })
                .map_err(|error| error.to_string().into())
        })
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        self.deadline.check()?;
        let batch = guarded(|| self.batches.next().transpose().map_err(|error| error.to_string().into()))?;
        self.before.clone_from(&batch);
        Ok(batch)
    }
}

/// The columns to be read, by their places.
fn wanted(
    metadata: &ParquetMetaData,
    is_left_out: &mut impl FnMut(&str, Option<Empty>) -> bool,
) -> Result<Vec<usize>, Fault> {
    let columns = metadata.file_metadata().schema_descr().columns();
    COLUMNS.check(columns.len() as u64)?;
    let mut names = HashSet::new();
    let mut read = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let name = column.path().string();
        if !is_left_out(&name, emptiness(metadata, index)) {
            read.push(index);
        }
        if !names.insert(name) {
            return Err(format!("column `{}` appears twice", column.path().string()).into());
        }
    }
    // Without any column the number of rows would be taken on trust.
    if read.is_empty() {
        read.push(0);
    }
    // Ours are flat: as many values as rows.
    let is_flat = |index: &usize| {
        columns.get(*index).is_some_and(|column| column.max_rep_level() == 0 && column.max_def_level() <= 1)
    };
    if read.iter().all(is_flat) { Ok(read) } else { Err("a column within a column".into()) }
}

/// A file may pass the checks and still make the library panic: that must not end the program.
fn guarded<T>(read: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    caught(read).unwrap_or_else(|| Err("the reading library panicked".into()))
}

/// Content of this column, if it is empty by the statistics of all groups.
fn emptiness(metadata: &ParquetMetaData, column: usize) -> Option<Empty> {
    let of_group = |statistics: &Statistics, rows: i64| {
        let is_zero = |bytes: Option<&[u8]>| bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        let nulls = statistics.null_count_opt()?;
        if u64::try_from(rows).is_ok_and(|rows| rows == nulls) {
            return Some(Empty::Nulls);
        }
        let is_number = matches!(statistics.physical_type(), Type::INT32 | Type::INT64 | Type::BOOLEAN);
        let is_zero = is_zero(statistics.min_bytes_opt()) && is_zero(statistics.max_bytes_opt());
        (is_number && is_zero && nulls == 0).then_some(Empty::Zeros)
    };
    let mut groups = metadata.row_groups().iter().map(|group| {
        let column = group.columns().get(column).filter(|column| column.num_values() == group.num_rows())?;
        of_group(column.statistics()?, group.num_rows())
    });
    let first = groups.next()??;
    groups.all(|group| group == Some(first)).then_some(first)
}

/// Every column of every group lies inside the file, and there are not more rows than its bytes can hold: a
/// hole has none.
fn check(metadata: &ParquetMetaData, file_bytes: u64, held_bytes: u64) -> Result<(), Fault> {
    let inside = |column: &ColumnChunkMetaData| {
        let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let (begin, length) = (u64::try_from(begin), u64::try_from(column.compressed_size()));
        begin.is_ok_and(|begin| length.is_ok_and(|length| begin.saturating_add(length) <= file_bytes))
    };
    let groups = metadata.row_groups();
    if !groups.iter().all(|group| group.num_rows() >= 0 && group.columns().iter().all(inside)) {
        return Err("a column lies outside the file".into());
    }
    let rows = groups.iter().fold(0_u64, |sum, group| sum.saturating_add(group.num_rows().cast_unsigned()));
    check_rows(rows, held_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
    use parquet::{
        arrow::ArrowWriter,
        file::properties::{EnabledStatistics, WriterProperties},
        schema::types::ColumnPath,
    };

    use super::*;

    /// A file of two groups with two rows each.
    fn file() -> File {
        let numbers = |values: [Option<i64>; 4]| -> ArrayRef { Arc::new(Int64Array::from_iter(values)) };
        let flags = |values: [bool; 4]| -> ArrayRef { Arc::new(BooleanArray::from_iter(values.map(Some))) };
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("zeros", numbers([Some(0); 4]), false),
            ("zeros unsaid", numbers([Some(0); 4]), false),
            ("zeros, then one", numbers([Some(0), Some(0), Some(0), Some(1)]), false),
            ("around zero", numbers([Some(-1), Some(1), Some(-1), Some(1)]), false),
            ("nulls", numbers([None; 4]), true),
            ("nulls, then zeros", numbers([None, None, Some(0), Some(0)]), true),
            ("nulls and zeros", numbers([None, Some(0), None, Some(0)]), true),
            ("unset", flags([false; 4]), false),
            ("set", flags([true; 4]), false),
            ("words", Arc::new(StringArray::from_iter_values(["", "", "", ""])) as ArrayRef, false),
        ]);
        let batch = batch.unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(2))
            .set_column_statistics_enabled(ColumnPath::from("zeros unsaid"), EnabledStatistics::None);
        let file = tempfile::tempfile().unwrap();
        let copy = file.try_clone().unwrap();
        let mut writer = ArrowWriter::try_new(copy, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        assert_eq!(writer.close().unwrap().num_row_groups(), 2);
        file
    }

    #[test]
    fn columns_of_nothing_are_known_before_they_are_read() {
        let mut heard = BTreeMap::new();
        let mut is_left_out = |name: &str, empty: Option<Empty>| {
            heard.extend(empty.map(|empty| (name.to_owned(), empty)));
            empty.is_some()
        };
        let mut closed = Closed::open(file(), Instant::now(), &mut is_left_out).unwrap();
        let expected = [("nulls", Empty::Nulls), ("unset", Empty::Zeros), ("zeros", Empty::Zeros)];
        assert_eq!(heard, expected.map(|(name, empty)| (name.to_owned(), empty)).into());
        let mut rows = 0;
        while let Some(batch) = closed.next().unwrap() {
            rows += batch.num_rows();
            let schema = batch.schema();
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(
                names,
                [
                    "zeros unsaid",
                    "zeros, then one",
                    "around zero",
                    "nulls, then zeros",
                    "nulls and zeros",
                    "set",
                    "words"
                ],
            );
        }
        assert_eq!(rows, 4);
    }

    /// The number of rows that a footer claims is not used: the rows of one column are counted.
    #[test]
    fn one_column_is_read_where_none_is_wanted() {
        let mut closed = Closed::open(file(), Instant::now(), |_, _| true).unwrap();
        let mut rows = 0;
        while let Some(batch) = closed.next().unwrap() {
            rows += batch.num_rows();
            assert_eq!((batch.num_columns(), batch.schema().field(0).name().as_str()), (1, "zeros"));
        }
        assert_eq!(rows, 4);
    }
}
