//! `guestscope compare` as its users meet it: folders of known content in; text, JSON and exit codes out.
//! Runs the program itself, without root and without BPF.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod browser;
mod gpu;
mod limits;
mod made;
mod page;
mod refused;
mod report;

use std::{
    path::Path,
    process::{Command, Output},
};

use made::Made;
use serde_json::Value;
use tempfile::TempDir;

const CLEAN: &str = "BM/2/VNL/CPU";
const SLOW: &str = "CN/2/VNL/CPU";

fn clean() -> Made {
    Made { scenario: CLEAN, ..Made::default() }
}

/// A platform throttled for 23 ms in every tenth request, and in the run queue for 0.9 ms in each.
fn slow() -> Made {
    Made { scenario: SLOW, runq_ns: 900_000, throttled_ns: 23_000_000, ..Made::default() }
}

/// Run folders of platforms in turns.
fn folders(runs: u64, platforms: &[Made]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for turn in 0..runs * platforms.len() as u64 {
        platforms[turn as usize % platforms.len()].write(directory.path(), turn);
    }
    directory
}

fn guestscope(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    command.arg("compare").args(words).current_dir(directory).env_remove("COLUMNS").output().unwrap()
}

#[track_caller]
fn text(output: Output, code: i32) -> String {
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    if code == 2 { stderr } else { stdout }
}

fn json(directory: &Path, words: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(words);
    serde_json::from_str(&text(guestscope(directory, &all), 0)).unwrap()
}

#[test]
fn tells_which_is_slower_and_why() {
    let directory = folders(10, &[clean(), slow()]);
    insta::assert_snapshot!(text(guestscope(directory.path(), &["."]), 0));
}

#[test]
fn every_number_is_in_the_json() {
    let directory = folders(10, &[clean(), slow()]);
    let json = json(directory.path(), &["."]);
    assert_eq!(json["baseline"]["label"], CLEAN);
    let platform = &json["platforms"][0];
    assert_eq!((&platform["label"], &platform["overall"]), (&SLOW.into(), &"slower".into()));
    let mean = &platform["mean"];
    let first = &mean["parts"][0];
    assert_eq!((&first["phase"][0], &first["cause"]), (&"inference".into(), &"throttled".into()));
    // 12 of 120 requests are throttled; the first 2 are the warm-up, of which none is throttled.
    let expected = 23e6 * 12.0 / 118.0;
    let found = first["difference_ns"]["value"].as_f64().unwrap();
    assert!((found - expected).abs() < 1.0, "{found}");
    let sum: f64 = mean["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["difference_ns"]["value"].as_f64().unwrap())
        .sum();
    let total = mean["value_ns"].as_f64().unwrap() - mean["baseline_ns"].as_f64().unwrap();
    assert!((sum - total).abs() < 1.0 && mean["residual_ns"].as_f64().unwrap().abs() < 1.0);
    assert_eq!(platform["tail"]["causes"][0]["cause"], "throttled");
    assert_eq!(platform["curve"].as_array().unwrap().len(), 97);
    insta::assert_snapshot!(serde_json::to_string_pretty(&platform["metrics"]).unwrap());
}

#[test]
fn the_same_platform_is_equivalent_to_itself() {
    let directory = folders(10, &[clean(), Made { scenario: "BM/4/VNL/CPU", ..clean() }]);
    insta::assert_snapshot!(text(guestscope(directory.path(), &["."]), 0));
}

#[test]
fn two_single_runs_get_an_explanation_and_no_verdict() {
    let directory = folders(1, &[clean(), slow()]);
    insta::assert_snapshot!(text(guestscope(directory.path(), &["."]), 0));
}

/// One request of ten is throttled for long, and the others are a little faster: the mean hardly moves.
#[test]
fn a_difference_of_the_slowest_is_explained_by_the_slowest() {
    let rare = Made { scenario: SLOW, cpu_ns: 17_900_000, throttled_ns: 20_000_000, ..Made::default() };
    let directory = folders(10, &[clean(), rare]);
    insta::assert_snapshot!(text(guestscope(directory.path(), &[".", "--margin", "mean=4%,p50=12%"]), 0));
}

/// Ratios too large for percent, of platforms that get faster during a run, which prevents a verdict.
#[test]
fn large_ratios_are_times_and_a_drift_says_what_to_do() {
    let far = Made { scenario: SLOW, cpu_ns: 2_500_000_000, ..Made::default() };
    let directory = folders(5, &[clean(), far]);
    let first = |output: Output| text(output, 0).lines().take(3).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(first(guestscope(directory.path(), &["."])));
    let directory = folders(5, &[clean(), Made { warms_up: true, ..slow() }]);
    let advice = first(guestscope(directory.path(), &["."]));
    insta::assert_snapshot!(advice);
    let words: Vec<&str> = advice.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--warmup").unwrap();
    let judged = json(directory.path(), &[".", "--warmup", words[at + 1]]);
    assert_eq!(judged["platforms"][0]["overall"], "slower");
}

#[test]
fn platforms_are_told_apart_by_label_name_and_argument() {
    let directory = folders(5, &[Made { name: "before", ..clean() }, Made { name: "after", ..slow() }]);
    let at = directory.path();
    let by_name = json(at, &[".", "--by", "name"]);
    assert_eq!((&by_name["by"], &by_name["baseline"]["label"]), (&"name".into(), &"before".into()));
    let other = json(at, &[".", "--by", "name", "--baseline", "after"]);
    assert_eq!(other["platforms"][0]["label"], "before");
    assert_eq!(other["platforms"][0]["overall"], "faster");
    for (name, made) in [("a", clean()), ("b", clean())] {
        for turn in 0..5 {
            made.write(&at.join("two").join(name), 100 + turn * 2 + u64::from(name == "b"));
        }
    }
    let by_argument = json(at, &["two/a", "two/b"]);
    assert_eq!(
        (&by_argument["by"], &by_argument["platforms"][0]["label"]),
        (&"argument".into(), &"b".into())
    );
    let labelled = json(at, &["old=two/b", "new=two/a"]);
    assert_eq!((&labelled["by"], &labelled["baseline"]["label"]), (&"label".into(), &"old".into()));
}

/// From inside, both virtual machines look alike; one is pinned from outside.
#[test]
fn directories_are_platforms_where_a_scenario_says_less() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let pinned = Made { runq_ns: 900_000, ..Made::default() };
    for turn in 0..5 {
        for (place, (name, made)) in
            [("metal", clean()), ("free", Made::default()), ("pinned", pinned.clone())].iter().enumerate()
        {
            made.write(&at.join(name), turn * 3 + place as u64);
        }
    }
    let found = json(at, &["free", "pinned", "metal"]);
    assert_eq!((&found["by"], &found["baseline"]["label"]), (&"argument".into(), &"metal".into()));
    let labels: Vec<&Value> =
        found["platforms"].as_array().unwrap().iter().map(|one| &one["label"]).collect();
    assert_eq!(labels, ["free", "pinned"]);
    assert_eq!(found["notes"], Value::Array(Vec::new()));
    let expected = "VM/2/VNL/CPU holds runs that differ in directory (free; pinned); ";
    for (words, hint) in [
        (&["free", "pinned", "metal", "--by", "scenario"][..], "--by argument tells them apart"),
        (&["."], "labels tell them apart: LABEL=DIR"),
    ] {
        let pooled = json(at, words);
        assert_eq!(pooled["platforms"][0]["runs"], 10);
        assert_eq!(pooled["notes"][0], format!("{expected}{hint}"));
    }
    let said = guestscope(at, &[".", "--self-test"]);
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains(&format!("warning: {expected}")), "{said}");
}

/// A guest that QEMU emulates: this is stated right below the verdict, by the platform's label, and no study
/// is quoted.
#[test]
fn what_is_emulated_gets_no_advice() {
    let directory = tempfile::tempdir().unwrap();
    let emulated = Made { hypervisor: "QEMU on TCG", ..slow() };
    for turn in 0..10 {
        clean().write(&directory.path().join("metal"), turn * 2);
        emulated.write(&directory.path().join("vm"), turn * 2 + 1);
    }
    let words = ["bare=metal", "guest=vm"];
    insta::assert_snapshot!(text(guestscope(directory.path(), &words), 0));
    let json = json(directory.path(), &words);
    let platform = &json["platforms"][0];
    assert_eq!((&json["baseline"]["emulated_runs"], &platform["emulated_runs"]), (&0.into(), &10.into()));
    assert!(platform["advice"].is_null() && platform["further_advice"].as_array().unwrap().is_empty());
}

#[test]
fn exit_codes_follow_what_the_caller_asked_for() {
    let directory = folders(6, &[clean(), slow()]);
    let code = |words: &[&str]| guestscope(directory.path(), words).status.code();
    assert_eq!(code(&["."]), Some(0));
    assert_eq!(code(&[".", "--fail-on", "slower"]), Some(1));
    assert_eq!(code(&[".", "--fail-on", "slower", "--baseline", SLOW]), Some(0));
    assert_eq!(code(&[".", "--fail-on", "different", "--baseline", SLOW]), Some(1));
    assert_eq!(code(&[".", "--fail-on", "slower", "--margin", "40%"]), Some(0));
}

#[test]
fn halves_of_each_platform_are_alike() {
    let directory = folders(12, &[clean(), slow()]);
    insta::assert_snapshot!(text(guestscope(directory.path(), &[".", "--self-test"]), 0));
}

#[test]
fn different_fidelities_are_compared_by_what_both_know() {
    let limited = Made { scenario: "VMCN/2/VNL/CPU", fidelity: "procfs", ..clean() };
    let directory = folders(6, &[slow(), limited]);
    let json = json(directory.path(), &["."]);
    assert_eq!(json["folded"], true);
    let causes = json["platforms"][0]["mean"]["causes"].as_array().unwrap();
    let names: Vec<_> = causes.iter().map(|cause| cause["cause"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| ["cpu", "runq", "other"].contains(name)), "{names:?}");
    assert!(json["notes"][0].as_str().unwrap().starts_with("fidelities differ"));
}
