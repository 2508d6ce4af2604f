//! The long form: a hundred faults of a kind, of random sizes at random places, each judged on its own.

use std::ffi::OsString;

use guestscope::analyze::Cause;

use super::{
    run::{Run, Truth, error},
    table::{SHARE, keep},
};

const VARIABLE: &str = "GUESTSCOPE_REPETITIONS";
/// Of so many faults each may be disturbed by the machine: what the rest must reach.
const ENOUGH_PERCENT: usize = 95;

/// How many were asked for, if any.
pub(super) fn repetitions() -> Option<usize> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Half to twice the size in the words, and one of 11 to 20 requests, by the number of the run.
fn randomised(words: &[&str], number: u64) -> Vec<String> {
    // Steps of the golden ratio cover an interval evenly.
    let share = (number as f64 * 0.618_033_988_749_895).fract();
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let size = words.iter().position(|word| word == "--size").expect("the row has a size") + 1;
    let digits = words[size].find(|next: char| !next.is_ascii_digit()).unwrap_or(words[size].len());
    let (number_text, unit) = words[size].split_at(digits);
    let middle: f64 = number_text.parse().expect("a size begins with a number");
    words[size] = format!("{}{unit}", (middle * 0.5 * 4.0_f64.powf(share)).round());
    let every = 11 + number * 7 % 10;
    let more = ["--every".to_owned(), every.to_string(), "--seed".to_owned(), number.to_string()];
    words.extend(more);
    words.extend(["--spread".to_owned(), "20".to_owned()]);
    words
}

/// Runs until there were enough faults. 95 of 100 must be named first, with their sizes.
pub(super) fn judge(
    test: &str,
    workloads: &OsString,
    words: &[&str],
    (cause, truth): (Cause, Truth),
    repetitions: usize,
) {
    let (mut faults, mut named, mut sized, mut both, mut busy) = (0, 0, 0, 0, 0);
    let mut number = 0;
    while faults < repetitions {
        number += 1;
        let words = randomised(words, number);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(run) = Run::of(test, workloads, &words) else { return };
        busy += usize::from(run.is_busy());
        let hits = run.compare(words[0], cause, truth);
        assert!(!hits.is_empty(), "{}: no request was hit", words.join(" "));
        for (pair, is_named) in hits.into_iter().take(repetitions - faults) {
            let is_sized = error(pair).abs() <= SHARE;
            faults += 1;
            named += usize::from(is_named);
            sized += usize::from(is_sized);
            both += usize::from(is_named && is_sized);
        }
    }
    let what = words.join(" ");
    let row = format!(
        "{what:<34} {:<11} named {named}, within 10 % {sized}, both {both} of {faults}; {busy} of {number} runs busy",
        cause.name()
    );
    keep(row.clone());
    assert!(both * 100 >= faults * ENOUGH_PERCENT, "{row}");
}

/// A run of a program that would inject faults, and is told to hit none of its requests.
pub(super) fn without_fault(test: &str, workloads: &OsString, seed: u64) -> Option<Run> {
    let seed = seed.to_string();
    let run = Run::of(test, workloads, &["sleep", "--every", "1000000", "--seed", &seed])?;
    assert_eq!(run.injections("sleep").count(), 0, "one of a million, and there are fewer than a hundred");
    Some(run)
}

/// So many of them. Where machines are not disturbed from outside, 95 of 100 must name nothing; elsewhere what is named may
/// have been there, so the row says what it was.
pub(super) fn without_faults(test: &str, workloads: &OsString, repetitions: usize) {
    let mut named = std::collections::BTreeMap::<String, usize>::new();
    for seed in 1..=repetitions {
        let Some(run) = without_fault(test, workloads, seed as u64) else { return };
        *named.entry(run.headline()).or_default() += 1;
    }
    let nothing = named.remove("none").unwrap_or(0);
    let row =
        format!("no fault: nothing named in {nothing} of {repetitions} runs of 72 requests; else {named:?}");
    keep(row.clone());
    let is_undisturbed = crate::ground::variable("GUESTSCOPE_DISPOSABLE").is_some();
    assert!(nothing * 2 > repetitions, "{row}");
    assert!(!is_undisturbed || nothing * 100 >= repetitions * ENOUGH_PERCENT, "{row}");
}
