//! The summary of a file compared with another way of reading it; chunks do not change it, and memory does
//! not grow with the file.

use std::{fs, path::Path};

use rstest::rstest;

use super::{Outcome, Settings, run};
use crate::h2o::{
    error::H2oError,
    generate,
    schema::{COLUMNS, header},
    source::Data,
};

fn settings(path: &Path, chunk_bytes: usize) -> Settings {
    let data = Data { file: Some(path.to_owned()), rows: 0, seed: 0 };
    Settings { data, passes: 1, chunk_bytes, cold: false, progress: false }
}

fn generated(path: &Path, rows: u64) {
    generate::write(&generate::Settings { file: path.to_owned(), rows, seed: 1, progress: false }).unwrap();
}

#[test]
fn the_summary_is_that_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flights.csv");
    generated(&path, 3_000);
    let Outcome { summary, bytes, steps, .. } = run(&settings(&path, 65_536)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((summary.rows, bytes), (3_000, text.len() as u64));
    assert_eq!(steps.count(), text.len().div_ceil(65_536) as u64);
    for (at, column) in summary.columns.iter().enumerate() {
        assert_eq!(column.name, COLUMNS[at].name);
        let fields = || text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap());
        let there: Vec<&str> = fields().filter(|field| *field != "NA").collect();
        assert_eq!(column.missing, 3_000 - there.len() as u64, "{}", column.name);
        if column.levels.is_some() {
            let distinct: std::collections::BTreeSet<&str> = there.into_iter().collect();
            assert_eq!(column.levels, Some(distinct.len()), "{}", column.name);
        } else {
            let numbers: Vec<i32> = there.iter().map(|field| field.parse().unwrap()).collect();
            let sum = numbers.iter().map(|number| i64::from(*number)).sum();
            assert_eq!(column.sum, Some(sum), "{}", column.name);
            assert_eq!(
                (column.least, column.most),
                (numbers.iter().min().copied(), numbers.iter().max().copied())
            );
        }
    }
}

#[test]
fn chunks_decide_no_value_and_values_decide_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flights.csv");
    generated(&path, 500);
    let large = run(&settings(&path, 4 << 20)).unwrap();
    let small = run(&Settings { passes: 2, cold: true, ..settings(&path, 4_096) }).unwrap();
    assert_eq!(large.summary, small.summary);
    assert_eq!(large.outputs, run(&settings(&path, 8_192)).unwrap().outputs);
    assert_ne!(large.work, small.work);
    let cold = run(&Settings { cold: true, ..settings(&path, 4 << 20) }).unwrap();
    assert_eq!(cold.outputs, large.outputs);
    assert_ne!(cold.work, large.work, "reading from the disk is other work");
    let text = fs::read_to_string(&path).unwrap();
    let whole = run(&settings(&path, text.len())).unwrap();
    assert_eq!((whole.steps.count(), whole.summary), (1, large.summary), "no empty chunk behind the last");
    let swapped: Vec<&str> = {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.swap(1, 2);
        lines
    };
    fs::write(&path, swapped.join("\n") + "\n").unwrap();
    assert_ne!(run(&settings(&path, 4 << 20)).unwrap().outputs, large.outputs, "the order is part of it");
}

#[rstest]
#[case(0)]
#[case(7)]
fn a_file_that_ends_in_the_middle_of_a_line_says_so(#[case] left: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flights.csv");
    generated(&path, 100);
    let text = fs::read_to_string(&path).unwrap();
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&path, &text[..last + left]).unwrap();
    let summary = run(&settings(&path, 4 << 20)).unwrap().summary;
    assert_eq!((summary.rows, summary.bad.rows), (99, u64::from(left > 0)));
    if left > 0 {
        assert!(summary.bad.first[0].starts_with("line 101: "), "{:?}", summary.bad);
        assert!(summary.bad.first[0].ends_with("and the file ends there"), "{:?}", summary.bad);
    }
}

#[test]
fn a_file_without_any_good_row_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flights.csv");
    fs::write(&path, header() + "1,2,3\n4\n").unwrap();
    let error = run(&settings(&path, 4 << 20)).unwrap_err();
    assert!(matches!(error, H2oError::NoRows { rows: 2, .. }), "{error}");
    let error = run(&settings(folder.path(), 4_096)).unwrap_err();
    assert!(matches!(error, H2oError::NoFile { .. }), "{error}");
    let error = run(&settings(&folder.path().join("absent"), 4_096)).unwrap_err();
    assert!(matches!(error, H2oError::Read { .. }), "{error}");
}
