//! Folders that cannot be compared, or not completely: the message names the folder, and the others are
//! compared.

use std::{fs, path::Path, process::Command};

use rstest::rstest;

use super::{Made, SLOW, clean, folders, guestscope, json, slow, text};

/// Replaces a text in the manifest of the first folder.
fn tamper(directory: &Path, from: &str, to: &str) -> String {
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let manifest = names[0].join("manifest.json");
    let before = fs::read_to_string(&manifest).unwrap();
    assert!(before.contains(from), "{before}");
    fs::write(&manifest, before.replace(from, to)).unwrap();
    names[0].file_name().unwrap().to_str().unwrap().to_owned()
}

#[rstest]
#[case::nothing_there(&["nowhere"], "error: no run folder: nowhere\n")]
#[case::no_such_platform(&[".", "--baseline", "VM/8"], "error: no such platform: VM/8; there are BM/2/VNL/CPU, CN/2/VNL/CPU\n")]
#[case::no_such_request(&[".", "--request", "step"], "error: not all runs have requests of this name: step; lacking: ./2")]
#[case::too_few_requests(&[".", "--metric", "p99"], "error: too few requests per run for p99: 118, it needs 1000; in ./2")]
#[case::too_few_for_a_low_percentile(&[".", "--metric", "mean,p0.5"], "error: too few requests per run for p0.5: 118, it needs 2000; in ./2")]
#[case::margin_of_another(&[".", "--metric", "p50", "--margin", "p95=3%"], "error: a margin of a metric that is not judged by: p95\n")]
#[case::too_long_a_warm_up(&[".", "--warmup", "9999"], "error: too long a warm-up: 9999 requests, at most 2000\n")]
fn arguments(#[case] words: &[&str], #[case] expected: &str) {
    let directory = folders(2, &[clean(), slow()]);
    let said = text(guestscope(directory.path(), words), 2);
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("\n\nhint: "), "{said}");
}

#[rstest]
#[case::metric(&["--metric", "p100"])]
#[case::metric_of_a_word(&["--metric", "median"])]
#[case::margin_of_nothing(&["--margin", "0%"])]
#[case::margin_of_a_word(&["--margin", "p50=much"])]
#[case::fail_on(&["--fail-on", "sometimes"])]
fn options(#[case] words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let mut all = vec!["."];
    all.extend(words);
    let said = text(guestscope(directory.path(), &all), 2);
    assert!(said.starts_with("error: invalid value"), "{said}");
}

/// Any percentile is a metric, and a percentile given twice is one metric.
#[test]
fn percentiles_that_nobody_foresaw() {
    let directory = folders(5, &[clean(), slow()]);
    let json = json(directory.path(), &[".", "--metric", "p75,p37.5,p75.0,throughput"]);
    let metrics = json["platforms"][0]["metrics"].as_array().unwrap();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["metric"].as_str().unwrap()).collect();
    assert_eq!(names, ["p75", "p37.5", "throughput"]);
    let margins: Vec<f64> = metrics.iter().map(|metric| metric["margin"].as_f64().unwrap()).collect();
    assert_eq!(margins, [0.05, 0.02, 0.02]);
}

#[test]
fn one_platform_alone() {
    let directory = folders(3, &[clean()]);
    let said = text(guestscope(directory.path(), &["."]), 2);
    assert!(said.starts_with("error: only one platform to compare: BM/2/VNL/CPU\n"), "{said}");
}

#[test]
fn unequal_work_is_refused_unless_it_is_wanted() {
    let directory = folders(5, &[clean(), Made { work_hash: Some("0123456789abcdef"), ..slow() }]);
    let said = text(guestscope(directory.path(), &["."]), 2);
    assert!(
        said.starts_with("error: the runs did not do the same work: hash 56c53051a40df547 in ./2"),
        "{said}"
    );
    let json = json(directory.path(), &[".", "--allow-unequal-work"]);
    assert_eq!(json["work"]["is_equal"], false);
    let said = text(guestscope(directory.path(), &[".", "--allow-unequal-work"]), 0);
    assert!(said.contains("\nWORK NOT EQUAL, compared all the same: hash 56c5"), "{said}");
}

#[test]
fn work_that_nobody_vouches_for_is_said_to_be_taken_for_equal() {
    let silent = |made: Made| Made { work_hash: None, ..made };
    let directory = folders(5, &[silent(clean()), silent(slow())]);
    let said = text(guestscope(directory.path(), &["."]), 0);
    assert!(said.contains("\nwork taken for equal: the same command, `serve --seed 1`"), "{said}");
}

#[test]
fn requests_that_nobody_made() {
    let directory = folders(2, &[clean(), slow()].map(|made| Made { requests: 0, ends: false, ..made }));
    let said = text(guestscope(directory.path(), &["."]), 2);
    assert!(said.contains("\nerror: nothing to compare: no requests in ./2"), "{said}");
}

/// One run without requests, one that a crash left without its workload's description, and one given twice:
/// they are named and left out, and the others are compared.
#[test]
fn a_bad_run_is_no_reason_to_refuse_all() {
    let directory = folders(6, &[clean(), slow()]);
    let at = directory.path();
    Made { requests: 0, ends: false, ..clean() }.write(at, 70);
    let crashed = Made { work_hash: None, ..clean() }.write(at, 71);
    let manifest = crashed.join("manifest.json");
    let told =
        fs::read_to_string(&manifest).unwrap().replace("\"state\": \"closed\"", "\"state\": \"running\"");
    fs::write(&manifest, told).unwrap();
    let twice = clean().write(&at.join("copies"), 0);
    let output = guestscope(at, &["."]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let name = |path: &Path| path.strip_prefix(at).unwrap().display().to_string();
    let told: Vec<&str> = said.lines().collect();
    assert_eq!(told.len(), 3, "{said}");
    assert!(said.contains("warning: left out: no requests in ./"), "{said}");
    let crashed = format!("never closed, and so without a word of the workload: ./{}", name(&crashed));
    assert!(said.contains(&crashed), "{said}");
    assert!(said.contains("warning: left out: the same run as another folder: ./"), "{said}");
    assert!(twice.exists() && text(output, 0).contains("\nruns: 6 BM/2/VNL/CPU, 6 CN/2/VNL/CPU;"));
}

/// A folder with the id of another run neither replaces that run nor removes it, whichever comes first.
#[rstest]
#[case::first(&["new=new", "old=old"])]
#[case::last(&["old=old", "new=new"])]
#[case::without_labels(&["old", "new"])]
fn a_folder_takes_no_run_of_others_out_of_a_comparison(#[case] arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    for index in 0..5 {
        clean().write(&directory.path().join("old"), index);
        clean().write(&directory.path().join("new"), index);
        slow().write(&directory.path().join("new"), index + 10);
    }
    let output = guestscope(directory.path(), arguments);
    let said = text(output, 2);
    let begin = "error: two different folders claim to be the same run: ";
    assert!(said.contains(begin) && said.contains("hint: leave one of them out"), "{said}");
}

/// Losses that a folder makes up are reported, whatever their number.
#[test]
fn losses_without_end_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let folder = clean().write(directory.path(), 0);
    let path = folder.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["health"]["losses"] =
        serde_json::json!({"kernel.edges": u64::MAX, "pairing.edges_lost": 1, "kernel.waits": u64::MAX});
    manifest["rows_lost"]["waits"] = 1.into();
    fs::write(&path, manifest.to_string()).unwrap();
    let said = Command::new(env!("CARGO_BIN_EXE_guestscope")).arg("explain").arg(folder).output();
    let words = text(said.unwrap(), 0).split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["18446744073709551615 edges or rows", "18446744073709551615 long waits were lost"] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

/// One run ended before its first request, one soon after it: the others are compared, by the metrics for
/// which there are enough requests.
#[test]
fn a_run_that_ended_early_is_named() {
    let many = |made: Made| Made { requests: 1_100, ..made };
    let directory = folders(5, &[many(clean()), many(slow())]);
    let at = directory.path();
    let none = Made { requests: 0, ..clean() }.write(at, 70);
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let output = guestscope(at, &["."]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let expected = format!("warning: left out: no requests of this name: request; in ./{}\n", name(&none));
    assert_eq!(said, expected);
    let told = text(output, 0);
    assert!(told.contains("runs: 5 BM/2/VNL/CPU, 5 CN/2/VNL/CPU;") && told.contains("p99"), "{told}");
    let few = Made { requests: 5, ..clean() }.write(at, 72);
    let told = text(guestscope(at, &["."]), 0);
    let note =
        format!("{} has 5 requests, where runs of its platform have 1078, and weighs as much", name(&few));
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&note), "{told}");
    let said = text(guestscope(at, &[".", "--metric", "p90"]), 2);
    let expected = format!("error: too few requests per run for p90: 5, it needs 100; in ./{}\n", name(&few));
    assert!(said.contains(&expected), "{said}");
}

/// A platform with short runs takes no metric from the others.
#[test]
fn each_platform_is_judged_by_the_highest_tail_that_it_has() {
    let with = |made: Made, scenario, requests| Made { scenario, requests, ..made };
    let short = with(slow(), "VM/2/VNL/CPU", 120);
    let shortest = with(slow(), "MVM/2/VNL/CPU", 20);
    let directory = folders(
        5,
        &[with(clean(), "BM/2/VNL/CPU", 1_100), with(slow(), "CN/2/VNL/CPU", 1_100), short, shortest],
    );
    let json = json(directory.path(), &["."]);
    let metrics = |platform: &serde_json::Value| -> Vec<String> {
        let metrics = platform["metrics"].as_array().unwrap();
        metrics.iter().map(|metric| metric["metric"].as_str().unwrap().to_owned()).collect()
    };
    let of: std::collections::BTreeMap<&str, Vec<String>> = json["platforms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|platform| (platform["label"].as_str().unwrap(), metrics(platform)))
        .collect();
    assert_eq!(of["CN/2/VNL/CPU"], ["mean", "p50", "p99"]);
    assert_eq!(of["VM/2/VNL/CPU"], ["mean", "p50", "p90"]);
    assert_eq!(of["MVM/2/VNL/CPU"], ["mean", "p50"]);
}

/// `--fail-on slower` passes where no platform has a verdict, with a warning.
#[test]
fn a_gate_without_a_verdict_is_open_and_says_so() {
    let directory = folders(3, &[clean(), slow()]);
    let output = guestscope(directory.path(), &[".", "--fail-on", "slower"]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.starts_with("warning: not all platforms have a verdict"), "{said}");
    text(output, 0);
    text(guestscope(directory.path(), &[".", "--fail-on", "not-equivalent"]), 1);
}

/// Names in a folder contain no control characters when they are shown.
#[test]
fn hostile_names_are_shown_as_text() {
    let escape = "\u{1b}[2J\u{202e}x";
    let hostile = Made { scenario: escape, name: escape, work_hash: Some(escape), ..slow() };
    let directory = folders(5, &[clean(), hostile]);
    for words in [&["."][..], &[".", "--allow-unequal-work"], &[".", "--json", "--allow-unequal-work"]] {
        let output = guestscope(directory.path(), words);
        for bytes in [output.stdout, output.stderr] {
            let text = String::from_utf8(bytes).unwrap();
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        }
    }
}

/// One of eleven folders is damaged: it is named, and the others are compared.
#[rstest]
#[case::corrupt("\"format\": 2", "\"format\" 2", "damaged file in the run folder: ")]
#[case::newer("\"format\": 2", "\"format\": 7", "run folder of a newer format: ")]
fn a_folder_that_cannot_be_read(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let directory = folders(6, &[clean(), slow()]);
    let name = tamper(directory.path(), from, to);
    let output = guestscope(directory.path(), &["."]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.starts_with(&format!("warning: left out: {expected}./{name}")), "{said}");
    assert!(text(output, 0).contains("\nruns: 5 BM/2/VNL/CPU, 6 CN/2/VNL/CPU;"));
}

#[test]
fn a_truncated_table_is_named_and_left_out() {
    let directory = folders(6, &[clean(), slow()]);
    let name = tamper(directory.path(), "\"format\": 2", "\"format\": 2");
    let table = directory.path().join(&name).join("phases.parquet");
    let bytes = fs::read(&table).unwrap();
    fs::write(&table, &bytes[..bytes.len() / 2]).unwrap();
    let output = guestscope(directory.path(), &["."]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.starts_with("warning: left out: damaged file in the run folder: ./"), "{said}");
    text(output, 0);
}

#[test]
fn a_run_that_was_never_closed_is_compared_and_said_so() {
    let directory = folders(5, &[clean(), slow()]);
    let name = tamper(directory.path(), "\"state\": \"closed\"", "\"state\": \"running\"");
    let json = json(directory.path(), &["."]);
    assert_eq!(
        json["notes"][0],
        format!("./{name} was never closed: it runs still, or its agent was killed")
    );
    assert_eq!(json["platforms"][0]["label"], SLOW);
}
