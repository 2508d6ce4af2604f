//! Tables whose columns have another type than the writer gives them: a few bytes that repeat for all rows.

use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::{
        Array as _, ArrayRef, DictionaryArray, Int8Array, Int64Array, LargeStringArray, ListArray,
        RecordBatch, StringArray, StringViewBuilder,
    },
    datatypes::{Field, Int8Type, Int64Type, Schema},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use parquet::arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder};
use rstest::rstest;

use super::{
    observed::{VERBS, observe},
    parts::Shape,
};

/// A number as a text of 20,000 digits, of which all rows of a column share one copy.
fn digits() -> String {
    "0".repeat(20_000)
}

/// A column with this number of rows, all with the same few bytes.
fn column(kind: &str, rows: usize) -> ArrayRef {
    let keys = Int8Array::from(vec![0; rows]);
    match kind {
        "views" => {
            let mut views = StringViewBuilder::new().with_deduplicate_strings();
            (0..rows).for_each(|_| views.append_value(digits()));
            Arc::new(views.finish())
        }
        "dictionary" => {
            let words: ArrayRef = Arc::new(StringArray::from(vec![digits()]));
            Arc::new(DictionaryArray::<Int8Type>::try_new(keys, words).expect("made for the test"))
        }
        "wide dictionary" => {
            let words: ArrayRef = Arc::new(LargeStringArray::from(vec![digits()]));
            Arc::new(DictionaryArray::<Int8Type>::try_new(keys, words).expect("made for the test"))
        }
        "numbers of a dictionary" => {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0]));
            Arc::new(DictionaryArray::<Int8Type>::try_new(keys, numbers).expect("made for the test"))
        }
        "text" => Arc::new(StringArray::from(vec!["0"; rows])),
        _ => Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..rows).map(|_| Some([Some(0)])))),
    }
}

fn changed(batch: &RecordBatch, name: &str, kind: &str) -> RecordBatch {
    let schema = batch.schema();
    let (fields, columns): (Vec<_>, Vec<_>) = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| {
            if field.name() != name {
                return (Arc::clone(field), Arc::clone(array));
            }
            let array = column(kind, batch.num_rows());
            (Arc::new(Field::new(name, array.data_type().clone(), false)), array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("made for the test")
}

fn change_stream(path: &Path, name: &str, kind: &str) {
    let reader =
        StreamReader::try_new(File::open(path).expect("made for the test"), None).expect("made for the test");
    let batches: Vec<RecordBatch> =
        reader.map(|batch| changed(&batch.expect("made for the test"), name, kind)).collect();
    fs::remove_file(path).expect("made for the test");
    let mut writer =
        StreamWriter::try_new(File::create(path).expect("made for the test"), &batches[0].schema())
            .expect("made for the test");
    for batch in &batches {
        writer.write(batch).expect("made for the test");
    }
    writer.finish().expect("made for the test");
}

fn change_table(path: &Path, name: &str, kind: &str) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("made for the test"))
        .expect("made for the test");
    let batches: Vec<RecordBatch> = reader
        .build()
        .expect("made for the test")
        .map(|batch| changed(&batch.expect("made for the test"), name, kind))
        .collect();
    fs::remove_file(path).expect("made for the test");
    let mut writer =
        ArrowWriter::try_new(File::create(path).expect("made for the test"), batches[0].schema(), None)
            .expect("made for the test");
    for batch in &batches {
        writer.write(batch).expect("made for the test");
    }
    writer.close().expect("made for the test");
}

/// Columns of a stream must have exactly the type that the writer gives them. A closed table, which other
/// tools write as well, may differ, but text is never a number.
#[rstest]
#[case::views_for_numbers("parent", "views", false)]
#[case::views_for_words("name", "views", false)]
#[case::texts_for_numbers("start_ns", "text", false)]
#[case::a_wide_dictionary("name", "wide dictionary", false)]
#[case::a_dictionary_of_identifiers("span_id", "dictionary", false)]
#[case::a_dictionary_of_numbers("start_ns", "numbers of a dictionary", false)]
#[case::lists("start_ns", "lists", false)]
#[case::texts_for_numbers_of_a_table("start_ns", "text", true)]
fn columns_of_another_kind_are_damage(#[case] name: &str, #[case] kind: &str, #[case] is_closed: bool) {
    let temporary = tempfile::tempdir().expect("made for the test");
    let scratch = temporary.path();
    let folder = Shape::default().write(&scratch.join("odd"), is_closed);
    if is_closed {
        change_table(&folder.join("phases.parquet"), name, kind);
    } else {
        change_stream(&folder.join("phases.arrows"), name, kind);
    }
    let good = Shape::default().write(&scratch.join("good"), true);
    for verb in VERBS {
        let outcome = observe(Path::new(env!("CARGO_BIN_EXE_guestscope")), verb, &folder, &good, scratch);
        let said = outcome.said;
        assert_eq!((outcome.fault, outcome.code), (None, Some(2)), "{verb}: {said}");
        assert!(said.contains("damaged file in the run folder: "), "{verb}: {said}");
    }
}
