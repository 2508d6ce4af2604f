//! The long form: a hundred faults of each kind, with random sizes and places, each judged separately.

use std::{collections::BTreeMap, ffi::OsString};

use guestscope::{analyze::Cause, phase::Phase};
use guestscope_contract::Account;

use super::{
    EVERY, has_turns,
    run::{Run, Truth, error},
    table::{SHARE, keep},
};

const VARIABLE: &str = "GUESTSCOPE_REPETITIONS";
/// Faults in a hundred that must be found: other load may disturb the rest.
const ENOUGH_PERCENT: usize = 95;

/// The number of faults in GUESTSCOPE_REPETITIONS, if set.
pub(super) fn repetitions() -> Option<usize> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Half to twice the size in the arguments, in one of 11 to 20 requests, by the number of the run.
fn randomised(words: &[&str], number: u64) -> Vec<String> {
    // Multiples of the golden ratio, modulo 1, cover an interval evenly.
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

/// Repeats runs until there were enough faults. 95 of 100 must be named first, with their sizes.
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

/// Pairs of faults for the same requests: one of 10 to 40 ms and one of 0.4 to 0.8 times that, in either
/// order.
const MIXTURES: [[(&str, Account); 2]; 4] = [
    [("lock", Account::Lock), ("sleep", Account::Sleep)],
    [("slow-peer", Account::Net), ("lock", Account::Lock)],
    [("sleep", Account::Sleep), ("spin", Account::Cpu)],
    [("spin-neighbour", Account::Runq), ("slow-peer", Account::Net)],
];

/// Repeats mixtures until there were enough: in 95 of 100, both causes must be named in the order of their
/// injected sizes, within 10 %.
pub(super) fn mixtures(test: &str, workloads: &OsString, repetitions: usize) {
    let (mut faults, mut right, mut ordered, mut sized) = (0, 0, 0, 0);
    let mut number = 0;
    while faults < repetitions {
        let mixture = MIXTURES[number % MIXTURES.len()];
        number += 1;
        let share = (number as f64 * 0.618_033_988_749_895).fract();
        let mut sizes = [10.0 * 4.0_f64.powf(share), 0.0];
        sizes[1] = sizes[0] * (0.4 + 0.4 * share);
        if number.is_multiple_of(3) {
            sizes.reverse();
        }
        let [size, other] = sizes.map(|ms| format!("{}us", (ms * 1e3).round()));
        let (and, seed) = (format!("{}:{other}", mixture[1].0), number.to_string());
        let words = [mixture[0].0, "--size", &size, "--and", &and, "--every", EVERY, "--seed", &seed];
        let Some(run) = Run::of(test, workloads, &words) else { return };
        let found =
            mixture.map(|(kind, account)| run.sizes(kind, Cause::Account(account), truth_of(account)));
        assert!(!found[0].is_empty(), "{}: no request was hit", words.join(" "));
        for ((hit, first), (same, second)) in found[0].iter().zip(&found[1]).take(repetitions - faults) {
            assert_eq!(hit.request, same.request, "both faults hit the same requests");
            faults += 1;
            let mut expected = mixture.map(|(_, account)| account.name());
            if second.0 > first.0 {
                expected.reverse();
            }
            let is_ordered = run.ranked(hit.request).starts_with(&expected);
            let is_sized = [first, second].iter().all(|pair| error(**pair).abs() <= SHARE);
            ordered += usize::from(is_ordered);
            sized += usize::from(is_sized);
            right += usize::from(is_ordered && is_sized);
        }
    }
    let row = format!(
        "mixtures of two: both named in their order {ordered}, both within 10 % {sized}, all of it {right} of {faults}"
    );
    keep(row.clone());
    assert!(right * 100 >= faults * ENOUGH_PERCENT, "{row}");
}

fn truth_of(account: Account) -> Truth {
    if account == Account::Cpu { Truth::Cpu } else { Truth::Injected }
}

/// Repeats moves between CPUs until there were enough hits: in 95 of 100, every move must be counted.
pub(super) fn moves(test: &str, workloads: &OsString, repetitions: usize, seen: fn(&Phase) -> u64) {
    let (mut faults, mut exact, mut number) = (0, 0, 0);
    while faults < repetitions {
        number += 1;
        let words = randomised(&["bounce", "--size", "16"], number);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(run) = Run::of(test, workloads, &words) else { return };
        let before = faults;
        for injection in run.injections("bounce").take(repetitions - faults) {
            faults += 1;
            exact += usize::from(seen(&run.request(injection.request).0) == injection.count);
        }
        assert!(faults > before, "{}: no request was hit", words.join(" "));
    }
    let row = format!("bounce --size 8 to 32: moves counted to the last {exact} of {faults}");
    keep(row.clone());
    assert!(exact * 100 >= faults * ENOUGH_PERCENT, "{row}");
}

/// A run that prepares faults and injects none.
pub(super) fn without_fault(test: &str, workloads: &OsString, seed: u64) -> Option<Run> {
    let seed = seed.to_string();
    let run = Run::of(test, workloads, &["sleep", "--every", "1000000", "--seed", &seed, "--log-spared"])?;
    assert_eq!(run.injections("sleep").count(), 0, "one of a million, and there are fewer than a hundred");
    Some(run)
}

/// Repeats such runs. In 95 of 100, nothing may be named that was not there. Other load disturbs machines, so
/// what is named is checked against the program's own numbers (its CPU clock, its schedstat).
pub(super) fn without_faults(test: &str, workloads: &OsString, repetitions: usize) {
    let (mut confirmed, mut wrong) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    let mut nothing = 0;
    for seed in 1..=repetitions {
        let Some(run) = without_fault(test, workloads, seed as u64) else { return };
        match run.headline() {
            named if named == "none" => nothing += 1,
            named if run.is_confirmed(&named) => *confirmed.entry(named).or_default() += 1,
            named => *wrong.entry(named).or_default() += 1,
        }
    }
    let row = format!(
        "no fault: nothing named in {nothing} of {repetitions} runs of 72 requests; confirmed by the program's own books \
         {confirmed:?}, not confirmed {wrong:?}"
    );
    keep(row.clone());
    let true_ones = nothing + confirmed.values().sum::<usize>();
    assert!(nothing * 2 > repetitions || has_turns(), "{row}");
    assert!(true_ones * 100 >= repetitions * ENOUGH_PERCENT, "{row}");
}
