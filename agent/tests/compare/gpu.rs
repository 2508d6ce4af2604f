//! What GPUs did on platforms that differ: in text, JSON and report, where windows tell it, and only there.

use super::{
    CLEAN, SLOW, folders, guestscope, json,
    made::{Made, Work},
    text,
};

const FAST: Work = Work { kernel_ns: 280_000, copy_ns: 3_100_000, windowed: 100 };
/// Sentences that only work which was recorded may bring.
const SENTENCES: [&str; 5] =
    ["the GPU computed", "the GPU copied", "kernels took", "on the GPU:", "in windows"];

/// A platform whose inferences wait so long for a GPU that does this work.
fn platform(scenario: &'static str, gpu_ns: u64, gpu: Option<Work>) -> Made {
    Made { scenario, cpu_ns: 2_000_000, gpu_ns, gpu, ..Made::default() }
}

fn compared(runs: u64, slow: (u64, Option<Work>)) -> (String, serde_json::Value) {
    let platforms = [platform(CLEAN, 4_500_000, Some(FAST)), platform(SLOW, slow.0, slow.1)];
    let directory = folders(runs, &platforms);
    (text(guestscope(directory.path(), &["."]), 0), json(directory.path(), &["."]))
}

/// The lines on GPUs and on advice, without their breaks.
fn told(text: &str) -> String {
    let about = ["mostly ", "gpu ", "gpu.busy ", "gpu.copy ", "in windows ", "advice "];
    let mut lines: Vec<String> = Vec::new();
    let mut is_told = false;
    for line in text.lines() {
        let is_row = line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        let goes_on = line.starts_with(' ') && !is_row;
        is_told = if goes_on { is_told } else { about.iter().any(|begin| line.starts_with(begin)) };
        match lines.last_mut().filter(|_| goes_on && is_told) {
            Some(last) => *last = format!("{last} {}", line.trim()),
            None if is_told => lines.push(line.to_owned()),
            None => {}
        }
    }
    lines.join("\n")
}

#[test]
fn kernels_that_take_longer_are_named() {
    let slow = Work { kernel_ns: 620_000, ..FAST };
    let (text, json) = compared(5, (6_200_000, Some(slow)));
    insta::assert_snapshot!(told(&text));
    assert!(text.contains("\ngpu.busy    the GPU computed longer: kernels took 3."), "{text}");
    assert!(text.contains("\ngpu         it is not sure that the GPU copied longer"), "{text}");
    let platform = &json["platforms"][0];
    let gpu = &platform["gpu_work"];
    // The first 2 of the 100 are the warm-up.
    assert_eq!((&gpu["value"]["requests"], &gpu["value"]["runs"]), (&490.into(), &5.into()), "{gpu:#}");
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let (first, second) = (number(&gpu["baseline"]["kernels_ns"]), number(&gpu["value"]["kernels_ns"]));
    assert!((first / 1.4e6 - 1.0).abs() < 0.01 && (second / 3.1e6 - 1.0).abs() < 0.01, "{gpu:#}");
    assert!((number(&gpu["kernels_difference_ns"]["value"]) - (second - first)).abs() < 1.0, "{gpu:#}");
    assert_eq!(gpu["causes"][0]["cause"], "gpu.busy", "{gpu:#}");
    assert_eq!(gpu["causes"].as_array().unwrap().len(), 1, "{gpu:#}");
    assert_eq!(platform["advice"]["cause"], "gpu.busy", "{platform:#}");
}

#[test]
fn copies_that_take_longer_are_named() {
    let slow = Work { copy_ns: 9_600_000, ..FAST };
    let (text, json) = compared(5, (11_000_000, Some(slow)));
    insta::assert_snapshot!(told(&text));
    assert!(text.contains("\ngpu.copy    the GPU copied longer: copies took 9."), "{text}");
    assert!(text.contains("\ngpu         it is not sure that the GPU computed longer"), "{text}");
    let platform = &json["platforms"][0];
    assert_eq!(platform["gpu_work"]["causes"][0]["cause"], "gpu.copy", "{platform:#}");
    assert_eq!(platform["advice"]["cause"], "gpu.copy", "{platform:#}");
}

/// A GPU that did the same was waited for longer: what it did is told, and no cause made of it.
#[test]
fn a_gpu_that_did_the_same_is_no_cause() {
    let (text, json) = compared(5, (6_200_000, Some(FAST)));
    insta::assert_snapshot!(told(&text));
    assert!(!text.contains("\ngpu.") && !text.contains("on the GPU:"), "{text}");
    assert_eq!(text.matches("\ngpu         it is not sure that the GPU ").count(), 2, "{text}");
    let platform = &json["platforms"][0];
    assert_eq!(platform["gpu_work"]["causes"], serde_json::json!([]));
    assert_eq!(platform["advice"]["cause"], "gpu", "{platform:#}");
}

/// It may do less while threads wait longer.
#[test]
fn a_gpu_that_did_less_is_no_cause() {
    let (text, _) = compared(5, (6_200_000, Some(Work { kernel_ns: 100_000, copy_ns: 0, ..FAST })));
    insta::assert_snapshot!(told(&text));
    assert!(text.contains("\ngpu         the GPU computed for less time: kernels took "), "{text}");
    assert!(text.contains("\ngpu         the GPU copied for less time: copies took 0 ns "), "{text}");
}

#[test]
fn of_single_runs_times_are_told_and_nothing_is_called_sure() {
    let (text, _) = compared(1, (6_200_000, Some(Work { kernel_ns: 620_000, ..FAST })));
    insta::assert_snapshot!(told(&text));
    assert!(text.contains("\ngpu.busy    kernels took 3.") && !text.contains("the GPU computed"), "{text}");
}

/// Windows on one side alone, too few requests in them, and work that nobody waited longer for.
#[test]
fn without_enough_requests_in_windows_on_both_sides_nothing_is_said() {
    let slow = Work { kernel_ns: 620_000, ..FAST };
    for gpu in [None, Some(Work { windowed: 21, ..slow })] {
        let (text, json) = compared(5, (6_200_000, gpu));
        assert!(SENTENCES.iter().all(|sentence| !text.contains(sentence)), "{text}");
        assert_eq!(json["platforms"][0].get("gpu_work"), None);
        assert_eq!(json["platforms"][0]["advice"]["cause"], "gpu");
    }
    // Two of them are the warm-up.
    let (text, _) = compared(5, (6_200_000, Some(Work { windowed: 22, ..slow })));
    assert!(text.contains("100 requests in 5 runs (baseline 490 in 5 runs)"), "{text}");
}

#[test]
fn a_table_that_cannot_be_read_is_said_and_costs_what_is_in_it() {
    let platforms = [CLEAN, SLOW].map(|scenario| platform(scenario, 4_500_000, Some(FAST)));
    let directory = folders(5, &platforms);
    let folder = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(folder.join("gpu_work.parquet"), "PAR1").unwrap();
    let all = json(directory.path(), &["."]);
    let notes = all["notes"].to_string();
    assert!(notes.contains("work of GPUs is missing: "), "{notes}");
    let gpu = &all["platforms"][0]["gpu_work"];
    let runs = [&gpu["baseline"]["runs"], &gpu["value"]["runs"]].map(|runs| runs.as_u64().unwrap());
    assert_eq!(runs.iter().sum::<u64>(), 9, "{gpu:#}");
}

#[test]
fn the_report_has_the_sentences() {
    let slow = Work { kernel_ns: 620_000, ..FAST };
    let platforms = [platform(CLEAN, 4_500_000, Some(FAST)), platform(SLOW, 6_200_000, Some(slow))];
    let (_, page) = super::report::report(&folders(5, &platforms), &["."]);
    assert!(page.contains("the GPU computed longer: kernels took "), "{page}");
    let without = platforms.map(|made| Made { gpu: None, ..made });
    let (_, page) = super::report::report(&folders(5, &without), &["."]);
    assert!(SENTENCES.iter().all(|sentence| !page.contains(sentence)), "{page}");
}
