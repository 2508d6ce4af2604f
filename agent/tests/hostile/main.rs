//! Malicious folders, given to the verbs that read folders: no verb crashes, waits, or takes more than 300
//! MB, and each error has a hint. `cargo xtask fuzz` does the same ten thousand times.

mod craft;
mod fuzz;
mod kinds;
mod observed;
mod parts;
mod words;

use std::{os::unix::fs::FileExt as _, path::Path, process::Command};

use craft::{Good, SPECIAL, hole, rewrite, special};
use fuzz::{Plan, fuzz};
use observed::{VERBS, observe, watch};
use parts::{Shape, copy};
use rstest::rstest;

/// Exit code and standard error of every verb on a folder.
#[track_caller]
fn said(folder: &Path, scratch: &Path) -> Vec<(Option<i32>, String)> {
    let good = Shape::default().write(&scratch.join("good"), true);
    let binary = Path::new(env!("CARGO_BIN_EXE_guestscope"));
    let all = VERBS.iter().map(|verb| {
        let outcome = observe(binary, verb, folder, &good, scratch);
        assert_eq!(outcome.fault, None, "{verb}: {}", outcome.said);
        (outcome.code, outcome.said)
    });
    all.collect()
}

#[track_caller]
fn all_refuse(folder: &Path, scratch: &Path, word: &str) {
    for ((code, said), verb) in said(folder, scratch).into_iter().zip(VERBS) {
        // The other folder of the comparison is valid: this one is left out, and then there is no second
        // platform.
        assert_eq!(code, Some(2), "{verb}: {said}");
        assert!(said.contains(word), "{verb}: {said}");
    }
}

#[rstest]
#[case::a_value(&["x".repeat(60_000_000)], 1)]
#[case::some_values(&[0, 1, 2, 3].map(|at: u8| at.to_string().repeat(5_000_000)), 40)]
fn a_value_of_megabytes_is_beyond_the_limit(#[case] names: &[String], #[case] rows: u64) {
    let temporary = tempfile::tempdir().unwrap();
    let good = Good::make(temporary.path());
    let folder = temporary.path().join("bomb");
    copy(&good.closed, &folder);
    rewrite(&good.closed, &folder, names, rows);
    all_refuse(&folder, temporary.path(), "beyond what is read of a run folder");
}

/// Equal rows take no space on disk, nor does a sparse end.
#[rstest]
#[case::small(0)]
#[case::with_a_hole(1 << 40)]
fn rows_without_bytes_are_beyond_the_limit(#[case] hole_bytes: u64) {
    let temporary = tempfile::tempdir().unwrap();
    let good = Good::make(temporary.path());
    let folder = temporary.path().join("bomb");
    copy(&good.closed, &folder);
    rewrite(&good.closed, &folder, &["x".to_owned()], 600_000);
    let path = folder.join("phases.parquet");
    let text = std::fs::read(&path).unwrap();
    if hole_bytes > 0 {
        // The footer lies at the end.
        let length = u32::from_le_bytes(text[text.len() - 8..][..4].try_into().unwrap()) as usize;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(hole_bytes).unwrap();
        file.write_all_at(&text[text.len() - length - 8..], hole_bytes).unwrap();
    }
    all_refuse(&folder, temporary.path(), "rows of a table of that size");
}

#[test]
fn a_name_of_megabytes_in_a_stream_is_beyond_the_limit() {
    let temporary = tempfile::tempdir().unwrap();
    let shape = Shape { requests: 2, phases: 2, name_bytes: 60_000_000, ..Shape::default() };
    let folder = shape.write(&temporary.path().join("bomb"), false);
    all_refuse(&folder, temporary.path(), "beyond what is read of a run folder");
}

#[test]
fn of_a_request_of_too_many_phases_the_rest_is_left_out_and_told() {
    let temporary = tempfile::tempdir().unwrap();
    let shape = Shape { requests: 1, phases: 25_000, ..Shape::default() };
    let folder = shape.write(&temporary.path().join("bomb"), true);
    for ((code, said), verb) in said(&folder, temporary.path()).into_iter().zip(VERBS) {
        // One process is no training.
        let is_for_several = verb == "compare" || verb.starts_with("ranks");
        assert!(matches!(code, Some(0)) || is_for_several, "{verb}: {said}");
        // Other verbs print it in their pages and texts.
        if verb.starts_with("export") || verb.starts_with("ranks") {
            assert!(
                said.contains("5000 phases are left out, those beyond 20000 of a request"),
                "{verb}: {said}"
            );
        }
    }
}

#[rstest]
fn what_is_no_regular_file_is_told_and_not_waited_for(
    #[values("manifest.json", "phases.parquet", "phases.arrows")] file: &str,
    #[values(0, 1, 2, 3, 4)] kind: usize,
) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Shape::default().write(&temporary.path().join("odd"), !file.ends_with("arrows"));
    special(&folder.join(file), SPECIAL[kind]);
    all_refuse(&folder, temporary.path(), "not a regular file");
}

#[rstest]
#[case::of_a_stream("phases.arrows", "no message begins here")]
#[case::of_a_table("phases.parquet", "not a Parquet file")]
#[case::of_a_manifest("manifest.json", "bytes of a manifest")]
fn a_hole_of_terabytes_is_not_read(#[case] file: &str, #[case] word: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Shape::default().write(&temporary.path().join("odd"), !file.ends_with("arrows"));
    hole(&folder.join(file), 8 << 40);
    for ((code, said), verb) in said(&folder, temporary.path()).into_iter().zip(VERBS) {
        if file.ends_with("arrows") {
            assert!(verb == "compare" || code == Some(0), "{verb}: {said}");
        } else {
            assert!(code == Some(2) && said.contains(word), "{verb}: {said}");
        }
    }
}

#[rstest]
#[case::values(format!("{{\"format\":1,\"workload\":{{\"x\":[{}0]}}}}", "0,".repeat(1_900_000)), "values in a manifest")]
#[case::depth(format!("{{\"format\":1,\"workload\":{{\"x\":{}}}}}", format!("{}{}", "[".repeat(50_000), "]".repeat(50_000))), "recursion limit")]
#[case::a_word(format!("{{\"format\":1,\"scenario\":\"{}\"}}", "s".repeat(1_000_000)), "bytes of a value")]
fn a_manifest_that_is_no_manifest_of_ours_is_refused(#[case] text: String, #[case] word: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Shape::default().write(&temporary.path().join("odd"), true);
    std::fs::write(folder.join("manifest.json"), text).unwrap();
    all_refuse(&folder, temporary.path(), word);
}

/// Each manifest alone is acceptable; a comparison holds all of them at once.
#[test]
fn manifests_of_many_words_fit_into_the_memory_together() {
    let temporary = tempfile::tempdir().unwrap();
    let runs = temporary.path().join("runs");
    let words = vec!["a"; 195_000];
    for run in 0..20_u8 {
        let folder = Shape::default().write(&runs.join(run.to_string()), true);
        words::change_manifest(&folder, |manifest| {
            manifest["run_id"] = run.to_string().into();
            manifest["scenario"] = ["VM/2/VNL/CPU", "MVM/2/VNL/CPU"][usize::from(run % 2)].into();
            manifest["command"] = words.clone().into();
        });
    }
    for verb in ["compare", "report"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope"));
        command.arg(verb).arg(&runs);
        if verb == "report" {
            command.arg("--output").arg(temporary.path().join("page.html"));
        }
        let outcome = watch(command, temporary.path());
        assert_eq!((outcome.fault, outcome.code), (None, Some(0)), "{verb}: {}", outcome.said);
    }
}

/// The short form of `cargo xtask fuzz`.
#[test]
fn hostile_folders_of_all_kinds_crash_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let plan = Plan { seed: 29, mutated: 60, crafted: 12, only: None };
    let report = fuzz(Path::new(env!("CARGO_BIN_EXE_guestscope")), plan, temporary.path());
    assert!(report.faults.is_empty(), "{}", report.faults.join("\n"));
    assert!(report.rows.iter().all(|row| row.folders > 0 && row.refused > 0 && row.faults == 0));
}
