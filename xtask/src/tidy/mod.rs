//! The rules of this repository that no compiler checks, as a list of complaints.
//!
//! Yields one [`Complaint`] per broken rule and place: opening comments, lengths and widths, inherited lints,
//! sleeping tests, clippy's settings, a row in KERNELS.md for each hook, a true CONTRIBUTING.md, circles of
//! files. It changes no file.

mod circles;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use self::circles::Crate;
use crate::guide;

const MOST_LINES: usize = 400;
/// Most columns of a line of comment: rustfmt cuts code alone.
const MOST_COLUMNS: usize = 110;
/// A long file is allowed to be one table; its first line says so.
const TABLE: &str = "//! Table:";
/// Clippy's settings, of which it reads one file for each crate: those of a crate hold all of the root's.
const SETTINGS: &str = ".clippy.toml";

/// A broken rule and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    file: PathBuf,
    line: usize,
    rule: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.rule)
    }
}

/// Everything that breaks a rule below `root`.
pub(crate) fn complaints(root: &Path) -> Result<Vec<Complaint>> {
    let mut out = Vec::new();
    let mut files = Vec::new();
    collect(root, Path::new(""), &mut files)?;
    files.sort();
    let kernels = fs::read_to_string(root.join("ebpf/KERNELS.md")).unwrap_or_default();
    let mut crates: BTreeMap<PathBuf, Crate> = BTreeMap::new();
    let libraries: Vec<PathBuf> = files.iter().filter(|file| file.ends_with("src/lib.rs")).cloned().collect();
    for file in files {
        let text =
            fs::read_to_string(root.join(&file)).with_context(|| format!("file: {}", file.display()))?;
        if file.file_name().is_some_and(|name| name == "Cargo.toml") {
            manifest(&file, &text, &mut out);
            settings(root, &file, &mut out);
        } else {
            source(&file, &text, &mut out);
            if let Some((src, below)) = in_crate(&file) {
                let has_library = libraries.contains(&src.join("lib.rs"));
                crates.entry(src).or_default().add(below, &file, &text, has_library);
            }
            if file.starts_with("agent/kernel/src/probes") {
                hooks(&file, &text, &kernels, &mut out);
            }
        }
    }
    if let Ok(text) = fs::read_to_string(root.join(guide::GUIDE)) {
        let found = guide::complaints(root, &text).into_iter();
        out.extend(found.map(|(line, rule)| complaint(Path::new(guide::GUIDE), line, &rule)));
    }
    for crate_ in crates.values() {
        out.extend(crate_.beside_their_folders().map(|file| {
            complaint(
                file,
                1,
                "lies in the folder of its modules, as mod.rs: all files of a module in one place",
            )
        }));
    }
    for files in crates.iter().flat_map(|(src, crate_)| crate_.circles(src)) {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let rule = format!("needs no file that needs it too: {}", names.join(", "));
        out.push(complaint(files[0], 1, &rule));
    }
    Ok(out)
}

/// The folder of a crate's sources, and the file's path below.
fn in_crate(file: &Path) -> Option<(PathBuf, &Path)> {
    let src = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "src"))?;
    Some((src.to_owned(), file.strip_prefix(src).ok()?))
}

/// Rust files and manifests, relative to the root; hidden folders and build results are not ours.
fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("folder: {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = below.join(&name);
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "runs" {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") || name == "Cargo.toml" {
            files.push(path);
        }
    }
    Ok(())
}

fn manifest(file: &Path, text: &str, out: &mut Vec<Complaint>) {
    // The root has no package, and a package that is its own workspace has nothing to inherit.
    if !text.contains("[package]") || text.lines().any(|line| line.trim() == "[workspace]") {
        return;
    }
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    if !lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true") {
        out.push(complaint(file, 1, "says `workspace = true` under `[lints]`, so that the rules are run"));
    }
}

fn source(file: &Path, text: &str, out: &mut Vec<Complaint>) {
    let first = text.lines().next().unwrap_or_default();
    if !first.starts_with("//!") {
        out.push(complaint(file, 1, "opens with `//!`: what it does, yields, and leaves to others"));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES && !first.starts_with(TABLE) {
        out.push(complaint(
            file,
            lines,
            &format!("has at most {MOST_LINES} lines, or is one table and begins `{TABLE}`"),
        ));
    }
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            out.push(complaint(
                file,
                number + 1,
                "has no sleeping test: it says `skipped: NAME: REASON` at run time",
            ));
        }
        if line.trim_start().starts_with("//") && line.chars().count() > MOST_COLUMNS {
            out.push(complaint(file, number + 1, &format!("comments have at most {MOST_COLUMNS} columns")));
        }
    }
}

/// What the root's settings refuse, a crate with settings of its own refuses too.
fn settings(root: &Path, file: &Path, out: &mut Vec<Complaint>) {
    let crate_ = file.parent().unwrap_or(Path::new("")).join(SETTINGS);
    let text = |path: &Path| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (all, own) = (text(Path::new(SETTINGS)), text(&crate_));
    if own.is_empty() || crate_ == Path::new(SETTINGS) {
        return;
    }
    for line in all.lines().filter(|line| !line.starts_with('#') && !own.lines().any(|own| own == *line)) {
        out.push(complaint(&crate_, 1, &format!("has all that the root's has: `{}`", line.trim())));
    }
}

/// The part of a file before its tests, which stand last; all of a file of tests is tests.
fn text_without_tests<'a>(file: &Path, text: &'a str) -> &'a str {
    if file.file_stem().is_some_and(|stem| stem == "tests")
        || file.components().any(|c| c.as_os_str() == "tests")
    {
        return "";
    }
    let start = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
    &text[..start]
}

/// Each `id: "..."` has a row in KERNELS.md that names it as code.
fn hooks(file: &Path, text: &str, kernels: &str, out: &mut Vec<Complaint>) {
    for (number, line) in text_without_tests(file, text).lines().enumerate() {
        let Some(id) = line.trim_start().strip_prefix("id: \"").and_then(|rest| rest.split('"').next())
        else {
            continue;
        };
        let cell = format!("`{id}`");
        if !kernels.lines().any(|row| row.starts_with('|') && row.contains(&cell)) {
            let rule = format!("attaches a hook that has no row in ebpf/KERNELS.md: {cell}");
            out.push(complaint(file, number + 1, &rule));
        }
    }
}

fn complaint(file: &Path, line: usize, rule: &str) -> Complaint {
    Complaint { file: file.to_owned(), line, rule: rule.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::{Complaint, complaints};

    /// What is wrong in a tree of one file (and whatever else is given), as `line: rule up to the colon`.
    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        complaints(folder.path())
            .unwrap()
            .iter()
            .map(|c: &Complaint| format!("{}: {}", c.line, c.rule))
            .collect()
    }

    #[rstest]
    #[case::documented("//! What.\nfn f() {}\n", &[])]
    #[case::undocumented("fn f() {}\n", &["1: opens with"])]
    #[case::empty("", &["1: opens with"])]
    #[case::item_comment("/// Not the file's.\nfn f() {}\n", &["1: opens with"])]
    #[case::asleep("//! T.\n#[test]\n    #[ignore = \"slow\"]\nfn f() {}\n", &["3: has no sleeping test"])]
    #[case::named("//! T.\nlet x = \"#[ignore]\";\n", &[])]
    fn files_open_with_a_comment_and_no_test_sleeps(#[case] text: &str, #[case] expected: &[&str]) {
        let found = check(&[("a/src/lib.rs", text)]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(f, e)| f.starts_with(e)), "{found:?}");
    }

    #[rstest]
    #[case("//! Logic.", 400, 0)]
    #[case("//! Logic.", 401, 1)]
    #[case("//! Table: names.", 401, 0)]
    fn files_are_short_unless_they_are_a_table(
        #[case] first: &str,
        #[case] lines: usize,
        #[case] expected: usize,
    ) {
        let text = format!("{first}\n{}", "x\n".repeat(lines - 1));
        assert_eq!(check(&[("a.rs", &text)]).len(), expected);
    }

    #[rstest]
    #[case::comment("    /// ", 110, 0)]
    #[case::wide_comment("    /// ", 111, 1)]
    #[case::by_characters("//! \u{e4}", 110, 0)]
    #[case::wide_code("let x = ", 111, 0)]
    fn comments_are_not_wide(#[case] begin: &str, #[case] columns: usize, #[case] expected: usize) {
        let line = format!("{begin}{}", "x".repeat(columns - begin.chars().count()));
        assert_eq!(check(&[("a.rs", &format!("//! Logic.\n{line}\n"))]).len(), expected);
    }

    #[rstest]
    #[case::inherits("[package]\nname = \"a\"\n[lints]\nworkspace = true\n", 0)]
    #[case::forgets("[package]\nname = \"a\"\n", 1)]
    #[case::another_table("[package]\n[lints]\n[dependencies]\nworkspace = true\n", 1)]
    #[case::root("[workspace]\nmembers = []\n", 0)]
    #[case::own_workspace("[package]\n[workspace]\n", 0)]
    fn crates_inherit_the_lints(#[case] text: &str, #[case] expected: usize) {
        assert_eq!(check(&[("a/Cargo.toml", text)]).len(), expected);
    }

    #[rstest]
    #[case::more("a = 1\nb = [\n    2,\n    3,\n]\n", 0)]
    #[case::less("a = 1\nb = [\n]\n", 1)]
    #[case::none("", 0)]
    fn a_crate_refuses_what_the_root_refuses(#[case] own: &str, #[case] expected: usize) {
        let all = "# Why.\na = 1\nb = [\n    2,\n]\n";
        let found =
            check(&[(".clippy.toml", all), ("a/Cargo.toml", "[workspace]\n"), ("a/.clippy.toml", own)]);
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[rstest]
    #[case::row("| `tp_btf/sched_switch` | 5.5 | link |", 0)]
    #[case::prose("`tp_btf/sched_switch` is not a row", 1)]
    #[case::similar("| `tp_btf/sched_switch_x` |", 1)]
    #[case::none("", 1)]
    fn each_hook_has_a_row(#[case] kernels: &str, #[case] expected: usize) {
        let probes = "//! Table: hooks.\nHook {\n    id: \"tp_btf/sched_switch\",\n}\n";
        let found = check(&[("agent/kernel/src/probes/sched.rs", probes), ("ebpf/KERNELS.md", kernels)]);
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[test]
    fn build_results_and_hidden_folders_are_left_alone() {
        assert_eq!(check(&[("target/a.rs", ""), (".git/a.rs", ""), ("runs/a.rs", "")]), [""; 0]);
    }

    #[test]
    fn a_complaint_names_its_place() {
        let complaint = super::complaint(Path::new("a/b.rs"), 7, "is short");
        assert_eq!(complaint.to_string(), "a/b.rs:7: is short");
    }
}
