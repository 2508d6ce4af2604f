//! CONTRIBUTING.md against the code: each row of its worked examples names a file, and what is to be found in
//! it.
//!
//! Yields complaints for `tidy`. What the rows say beside that is for people to keep true.

use std::{fs, path::Path};

/// The guide, relative to the root.
pub(crate) const GUIDE: &str = "CONTRIBUTING.md";
/// Where its examples begin.
const EXAMPLES: &str = "## How to add";
/// Where each of them begins.
const EXAMPLE: &str = "### ";

/// What is wrong with the guide below this root: line and rule.
pub(crate) fn complaints(root: &Path, guide: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let (mut is_example, mut rows, mut examples) = (false, 0, 0);
    for (index, line) in guide.lines().enumerate() {
        if line.starts_with("## ") {
            is_example = line.starts_with(EXAMPLES);
        }
        examples += usize::from(is_example && line.starts_with(EXAMPLE));
        if let Some((file, items)) = row(line).filter(|_| is_example) {
            rows += 1;
            match fs::read_to_string(root.join(file)) {
                Err(_) => out.push((index + 1, format!("names a file that is not there: {file}"))),
                Ok(text) => out.extend(
                    (items.iter().filter(|item| !text.contains(**item)))
                        .map(|item| (index + 1, format!("names what is not in {file}: `{item}`"))),
                ),
            }
        }
    }
    if rows < 2 * examples || examples == 0 {
        out.push((1, format!("has a table for each example below `{EXAMPLES}`")));
    }
    out
}

/// File and items of a row: what stands in backquotes in the first cell, and in the last.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let file = *code(cells.first()?).first()?;
    Some((file, code(cells.last()?)))
}

fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{GUIDE, complaints};
    use crate::workspace::Workspace;

    #[test]
    fn the_guide_is_true() {
        let root = Workspace::load().unwrap().root;
        let guide = std::fs::read_to_string(root.join(GUIDE)).unwrap();
        assert_eq!(complaints(&root, &guide), []);
        for example in ["a count", "an account", "a family", "a source", "an export format", "a verb"] {
            assert!(guide.contains(&format!("### ... {example}")), "{example}");
        }
        assert!(guide.lines().count() <= 200);
    }

    #[rstest]
    #[case::true_("| `a.rs` | what | `fn a`, `b` |\n| `a.rs` | what | `fn a` |\n", &[])]
    #[case::no_file("| `b.rs` | what | `fn a` |\n| `a.rs` | what | `fn a` |\n", &[(3, "names a file that is not there: b.rs")])]
    #[case::no_item("| `a.rs` | what | `fn a` |\n| `a.rs` | what | `b`, `fn c` |\n", &[(4, "names what is not in a.rs: `fn c`")])]
    #[case::nothing("text\n", &[(1, "has a table for each example below `## How to add`")])]
    fn what_is_not_there_is_named(#[case] rows: &str, #[case] expected: &[(usize, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.rs"), "fn a() { b }").unwrap();
        let guide = format!("## How to add\n### one\n{rows}## More\n| `c.rs` | | |\n");
        let found = complaints(folder.path(), &guide);
        let expected: Vec<_> = expected.iter().map(|&(line, rule)| (line, rule.to_owned())).collect();
        assert_eq!(found, expected);
    }
}
