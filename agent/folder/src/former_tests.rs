//! Folders of format 1 (`testdata/format-1`, written by the last version of that format) still read as they
//! were: every renamed column against the raw one, by the library alone.

use std::{fs::File, path::PathBuf};

use arrow::{
    array::AsArray, compute::cast, datatypes::Int64Type, ipc::reader::StreamReader, record_batch::RecordBatch,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rstest::rstest;

use super::{
    columns::{PHASES, SAMPLES, THREADS},
    former,
    reader::Folder,
    rows::Rows,
    table::{Access, Table},
};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/format-1").join(name)
}

/// Batches of a file, without our reader.
fn raw(name: &str, table: &str) -> Vec<RecordBatch> {
    let of = |extension: &str| File::open(folder(name).join(format!("{table}.{extension}")));
    if let Ok(file) = of("parquet") {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        return reader.map(Result::unwrap).collect();
    }
    // A crash ends the stream with what was not whole.
    StreamReader::try_new(of("arrows").unwrap(), None).unwrap().map_while(Result::ok).collect()
}

/// Sum of a column; none if the file has no such column.
fn raw_sum(batches: &[RecordBatch], column: &str) -> Option<u64> {
    batches.first()?.column_by_name(column)?;
    let of_batch = |batch: &RecordBatch| {
        let numbers =
            cast(batch.column_by_name(column).unwrap(), &arrow::datatypes::DataType::Int64).unwrap();
        numbers.as_primitive::<Int64Type>().iter().flatten().map(i64::cast_unsigned).sum::<u64>()
    };
    Some(batches.iter().map(of_batch).sum())
}

fn sum<R>(table: &Table<R>, rows: &[R], column: &str) -> Option<u64> {
    let column = table.columns.iter().find(|known| known.name == column)?;
    match &column.access {
        Access::Integer { get, .. } => Some(rows.iter().map(get).sum()),
        Access::OptionalInteger { get, .. } => Some(rows.iter().filter_map(get).sum()),
        Access::Flag { .. } | Access::Word { .. } | Access::Hex { .. } => None,
    }
}

/// How many renamed columns of the table were compared, and how many of those hold anything.
fn compare<R>(name: &str, table: &'static Table<R>, rows: Rows<R>) -> (usize, usize) {
    let (rows, batches) = (rows.map(Result::unwrap).collect::<Vec<R>>(), raw(name, table.name));
    let mut counts = (0, 0);
    for (today, former) in former::all() {
        let Some(then) = raw_sum(&batches, former.name) else { continue };
        let expected = then * former.factor;
        assert_eq!(sum(table, &rows, today), Some(expected), "{name}: {} as {today}", former.name);
        counts = (counts.0 + 1, counts.1 + usize::from(expected > 0));
    }
    assert_eq!(sum(table, &rows, "time_cpu_ns"), raw_sum(&batches, "time_cpu_ns"), "{name}: {}", table.name);
    counts
}

#[rstest]
#[case::closed("closed", 40)]
#[case::of_an_agent_that_was_killed("crashed", 40)]
fn a_folder_of_format_1_reads_as_it_was(#[case] name: &str, #[case] requests: usize) {
    let opened = Folder::open(folder(name)).unwrap();
    assert_eq!(opened.manifest().format, 1);
    let found = compare(name, &PHASES, opened.phases().unwrap());
    assert_eq!(found.0, 9, "all renamed columns of phases");
    assert!(found.1 >= 6, "most hold something: {found:?}");
    assert_eq!(compare(name, &THREADS, opened.threads().unwrap()).0, 8);
    assert_eq!(compare(name, &SAMPLES, opened.samples().unwrap()).0, 4);
    let whole = opened.requests().unwrap().map(Result::unwrap);
    let marked = whole.filter(|request| request.root().name == "classify");
    let sums = marked.map(|request| {
        let root = request.root();
        assert_eq!(root.accounts.total_ns() + root.suspended_ns, root.duration_ns);
    });
    assert_eq!(sums.count(), requests);
}
