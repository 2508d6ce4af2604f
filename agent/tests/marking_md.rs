//! docs/marking.md: every row of its table names tests that exist.

use std::{fs, path::Path};

/// The source file of `e2e::python_auto::name`, relative to this crate, and the test's name.
fn place(test: &str) -> Option<(String, &str)> {
    let mut words = test.splitn(3, "::");
    let (group, file, name) = (words.next()?, words.next()?, words.next()?);
    let folder = match group {
        "e2e" | "servers" => format!("tests/{group}"),
        "marker" => "marker/tests".to_owned(),
        _ => return None,
    };
    Some((format!("{folder}/{file}.rs"), name))
}

fn tests_of(text: &str) -> Vec<&str> {
    text.split('`').filter(|part| place(part).is_some()).collect()
}

#[test]
fn every_row_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/marking.md")).expect("it can be read");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        assert!(!tests_of(row).is_empty(), "no test: {row}");
    }
    for test in tests_of(&page) {
        let (file, name) = place(test).expect("it was one above");
        let source = fs::read_to_string(root.join(&file)).unwrap_or_default();
        assert!(source.contains(&format!("fn {name}(")), "no such test in {file}: {name}");
    }
}
