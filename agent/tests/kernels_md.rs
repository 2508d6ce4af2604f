//! Compares the tables of ebpf/KERNELS.md with the code: a row for each hook and each kernel field, and no
//! other rows. People keep the content of the rows true.

use std::collections::BTreeSet;

use guestscope::probes::FAMILIES;
use guestscope_contract::fields::FIELDS;

/// The file when this test was built.
static KERNELS: &str = include_str!("../../ebpf/KERNELS.md");

/// First and second cell of each row below a heading, without the header.
fn rows(heading: &str) -> Vec<(&'static str, &'static str)> {
    let section = KERNELS.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("a section `{heading}`"));
    let mut cells = section.lines().filter_map(|line| line.strip_prefix("| ")).map(|row| {
        let mut cells = row.split(" | ");
        (cells.next().unwrap_or_default().trim(), cells.next().unwrap_or_default().trim())
    });
    cells.next();
    cells.collect()
}

/// The text in backquotes; empty if the cell is.
fn code(cell: &'static str) -> &'static str {
    cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or_default()
}

#[test]
fn each_hook_has_a_row_and_each_row_a_hook() {
    let documented: BTreeSet<&str> = rows("Hooks").into_iter().map(|row| code(row.0)).collect();
    let hooks = FAMILIES.iter().copied().flatten();
    let attached: BTreeSet<&str> = hooks
        .flat_map(|hook| [Some(*hook), hook.raw(), hook.by_event()])
        .flatten()
        .map(|hook| hook.id)
        .collect();
    assert_eq!(documented, attached);
    assert_eq!(documented.len(), rows("Hooks").len(), "no hook stands twice");
}

#[test]
fn each_field_has_a_row_and_each_row_a_field() {
    let documented: BTreeSet<Vec<&str>> = rows("Fields")
        .into_iter()
        .map(|row| {
            [row.0].into_iter().chain(row.1.split(", ")).map(code).filter(|path| !path.is_empty()).collect()
        })
        .collect();
    let read: BTreeSet<Vec<&str>> = FIELDS.iter().map(|field| field.paths.to_vec()).collect();
    assert_eq!(documented, read);
}

#[test]
fn a_field_that_may_be_absent_says_what_is_missing_then() {
    for field in FIELDS {
        let row = KERNELS.lines().find(|line| line.starts_with(&format!("| `{}` |", field.paths[0])));
        let row = row.unwrap_or_else(|| panic!("a row for {}", field.paths[0]));
        assert_eq!(row.ends_with("| refuses |"), field.required, "{row}");
    }
}
