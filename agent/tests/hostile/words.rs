//! Folders whose texts imitate lines of the tool: they stay quotations, on one line, and short.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{Field, Schema},
};
use parquet::arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    observed::{VERBS, observe},
    parts::Shape,
};

/// Text that must not stand at the start of a line.
const FORGED: &str = "error: FORGED\nFORGED: all is well\r\nhint: FORGED";
/// Longest line of an error, in characters: paths, quoted texts, and the message around them.
const LONGEST_LINE: usize = 1_000;

const AGENT: &str = env!("CARGO_BIN_EXE_guestscope");

fn is_forged(line: &str) -> bool {
    ["FORGED", "error: FORGED", "hint: FORGED"].iter().any(|one| line.starts_with(one))
}

/// Adds columns of zeros with these names to a table.
fn add_columns(folder: &Path, table: &str, names: &[&str]) {
    let path = folder.join(format!("{table}.parquet"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("made for the test"))
        .expect("made for the test");
    let empty = RecordBatch::new_empty(Arc::clone(reader.schema()));
    let mut batches: Vec<RecordBatch> =
        reader.build().expect("made for the test").map(|batch| batch.expect("made for the test")).collect();
    // A table without rows has columns, too.
    batches.push(empty);
    for batch in &mut batches {
        let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
        let mut columns = batch.columns().to_vec();
        for name in names {
            let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; batch.num_rows()]));
            fields.push(Arc::new(Field::new(*name, zeros.data_type().clone(), false)));
            columns.push(zeros);
        }
        *batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("made for the test");
    }
    let file = File::create(&path).expect("made for the test");
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).expect("made for the test");
    for batch in &batches {
        writer.write(batch).expect("made for the test");
    }
    writer.close().expect("made for the test");
}

pub(crate) fn change_manifest(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest = serde_json::from_str(&fs::read_to_string(&path).expect("made for the test"))
        .expect("made for the test");
    change(&mut manifest);
    fs::write(path, manifest.to_string()).expect("made for the test");
}

/// The place of the text in the folder, the tool's message before it, and whether that ends the verb.
#[rstest]
#[case::unknown_word("state", "damaged file in the run folder: ", true)]
#[case::unknown_key("exit", "damaged file in the run folder: ", true)]
#[case::a_book("book", "damaged file in the run folder: ", true)]
#[case::an_account("account", "run folder of a newer format: ", true)]
#[case::twice("twice", "damaged file in the run folder: ", true)]
#[case::of_waits("waits", "damaged file in the run folder: ", false)]
fn words_of_a_folder_are_no_lines_of_the_tool(#[case] place: &str, #[case] told: &str, #[case] ends: bool) {
    let temporary = tempfile::tempdir().expect("made for the test");
    let scratch = temporary.path();
    let folder = Shape::default().write(&scratch.join("forged"), true);
    let time = format!("time_{FORGED}_ns");
    match place {
        "state" => change_manifest(&folder, |manifest| manifest["state"] = json!(FORGED)),
        "exit" => change_manifest(&folder, |manifest| manifest["child"] = json!({"exit": {FORGED: 1}})),
        "book" => change_manifest(&folder, |manifest| manifest["state"] = json!("FORGED ".repeat(500_000))),
        "account" => add_columns(&folder, "phases", &[&time]),
        "twice" => add_columns(&folder, "phases", &[FORGED, FORGED]),
        _ => add_columns(&folder, "waits", &[FORGED, FORGED]),
    }
    let good = Shape::default().write(&scratch.join("good"), true);
    for verb in VERBS {
        let outcome = observe(Path::new(AGENT), verb, &folder, &good, scratch);
        let (said, out) = (&outcome.said, fs::read_to_string(scratch.join("out")).unwrap_or_default());
        assert_eq!(outcome.fault, None, "{verb}: {said}");
        assert_eq!(said.lines().chain(out.lines()).find(|line| is_forged(line)), None, "{verb}");
        let longest = said.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < LONGEST_LINE, "{verb}: a line of {longest} characters");
        if ends {
            assert!(said.contains(told), "{verb}: {said}");
        }
    }
}

/// Differences between runs of a platform are quoted from the folders within one line.
#[test]
fn words_of_manifests_are_no_lines_of_a_warning() {
    let temporary = tempfile::tempdir().expect("made for the test");
    let runs = ["a", "b", "c", "d"].map(|run| {
        let folder = Shape::default().write(&temporary.path().join("runs").join(run), true);
        change_manifest(&folder, |manifest| {
            manifest["run_id"] = json!(run);
            manifest["scenario"] = json!(format!("VM{FORGED}"));
            manifest["kernel"] = json!(format!("{run}{FORGED}"));
            manifest["cpu_model"] = json!(run.repeat(4_000));
            manifest["versions"] = json!({"guestscope": format!("{run}{FORGED}")});
        });
        folder
    });
    for form in [["--self-test"].as_slice(), &["--json", "--self-test"], &["--by", "name"]] {
        let output =
            Command::new(AGENT).arg("compare").arg("--allow-unequal-work").args(form).args(&runs).output();
        let output = output.expect("made for the test");
        let [out, said] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("made for the test"));
        assert_eq!(said.lines().chain(out.lines()).find(|line| is_forged(line)), None, "{form:?}");
        assert!(
            said.contains("VMerror: FORGED FORGED: all is well") || form[0] == "--by",
            "{form:?}: {said}"
        );
        let longest = said.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < 5 * LONGEST_LINE, "{form:?}: a line of {longest} characters");
    }
}
