//! Tables that another tool or another version has rewritten: they are read as far as that is safe.

use std::{fs, path::PathBuf, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema},
};
use guestscope::folder::{Error, Folder};
use rstest::rstest;

use super::{close, create, manifest, request};

/// Writes `phases.parquet` of a closed folder with some columns left out or renamed.
fn rewritten(change: impl Fn(&str) -> Option<String>) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 9));
    let path = close(folder).path;
    let file = path.join("phases.parquet");
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(fs::File::open(&file).unwrap(), 10);
    let batch = reader.unwrap().next().unwrap().unwrap();
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .filter_map(|(field, array)| {
            let name = change(field.name())?;
            // Another tool's types: no dictionaries, wider integers.
            let plain = if name == "name" { DataType::LargeUtf8 } else { field.data_type().clone() };
            let array = arrow::compute::cast(array, &plain).unwrap();
            Some((Field::new(name, plain, true), array))
        })
        .unzip();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(fs::File::create(&file).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (parent, path)
}

#[test]
fn a_file_that_another_tool_wrote_again_is_read() {
    let (_parent, path) =
        rewritten(|name| (name != "count_wakeup" && name != "cause").then(|| name.to_owned()));
    let requests: Vec<_> = Folder::open(&path).unwrap().requests().unwrap().map(Result::unwrap).collect();
    assert_eq!(requests, [request(1, "infer", 9)]);
}

#[rstest]
#[case::unknown_account("time_other_ns", Some("time_swap_ns"), "column `time_swap_ns`")]
#[case::missing("duration_ns", None, "column `duration_ns` is missing")]
fn columns_that_rows_cannot_do_without(
    #[case] column: &str,
    #[case] becomes: Option<&str>,
    #[case] told: &str,
) {
    let change = |name: &str| if name == column { becomes.map(str::to_owned) } else { Some(name.to_owned()) };
    let (_parent, path) = rewritten(change);
    let mut requests = Folder::open(&path).unwrap().requests().unwrap();
    let error = requests.next().unwrap().unwrap_err();
    assert!(error.to_string().contains(told), "{error}");
    assert!(requests.next().is_none());
}

#[test]
fn a_request_without_its_outermost_phase_is_damage() {
    let parent = tempfile::tempdir().unwrap();
    let mut folder = create(parent.path(), manifest());
    folder.append_request(&request(1, "infer", 9));
    let mut headless = request(2, "infer", 9);
    headless.phases[0].root = 77;
    folder.append_request(&headless);
    folder.append_request(&request(3, "infer", 9));
    let path = close(folder).path;
    let mut requests = Folder::open(&path).unwrap().requests().unwrap();
    assert_eq!(requests.next().unwrap().unwrap().root().id, 1);
    assert!(matches!(requests.next(), Some(Err(Error::Damaged { .. }))));
    assert!(requests.next().is_none());
}
