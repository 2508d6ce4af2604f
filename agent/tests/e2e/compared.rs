//! One cause injected into one of two otherwise equal platforms: `compare` must rank it first, with its size.
//!
//! Runs of a program that is left in peace and of the same program with faults take turns. The truth is the injector's log:
//! what it injected, per request. GUESTSCOPE_REPETITIONS=20 makes so many such experiments, and as many of the program
//! with itself; without it there is one of each kind, which is repeated where somebody else disturbed it.

use std::{ffi::OsString, path::Path};

use rstest::rstest;
use serde_json::Value;

use crate::{
    ground::{Ground, variable},
    truth::{ATTEMPTS, keep, workloads},
};

/// Runs of each side.
const RUNS: u32 = 5;
const REQUESTS: u32 = 72;
/// Of what was injected.
const SHARE: f64 = 0.10;

struct Experiment {
    ground: Ground,
    workloads: OsString,
}

impl Experiment {
    /// One run into the folder of its side; what was injected in it, ns. `words` without a fault leave it in peace.
    fn run(&self, side: &str, words: &[&str], seed: u32) -> u64 {
        let (log, runs) = (self.ground.path("truth.jsonl"), self.ground.path(side));
        let (seed, requests) = (seed.to_string(), REQUESTS.to_string());
        // Rounds are the same work on both sides; a time would be measured anew by each.
        let common =
            ["--requests", &requests, "--warmup", "2", "--work", "2500000", "--seed", &seed, "--json"];
        let start = self.ground.command(&["run", "--json", "--output"]).word(runs).program(&self.workloads);
        let start = start.words(&["stall"]).words(words).words(&common).word("--log").word(&log);
        start.finish().expect(0);
        let of = |line: &str| -> u64 {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let number = |key: &str| line[key].as_u64().unwrap_or(0);
            // Reading from a disk takes CPU time as well, which is no waiting, nor is what follows for a CPU.
            let asleep_ns = || number("wall_ns").saturating_sub(number("cpu_ns") + number("run_delay_ns"));
            if line["kind"] == "disk" { asleep_ns() } else { number("ns") }
        };
        std::fs::read_to_string(log).unwrap_or_default().lines().map(of).sum()
    }

    /// Both sides in turns, then the comparison. How much more was injected into the second, ns per request.
    fn make(&self, words: [&[&str]; 2], seed: u32) -> (f64, Value) {
        let mut injected = [0; 2];
        for turn in 0..RUNS {
            // The first of a pair is not always the same.
            for side in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                let seed = seed * 1_000 + turn * 2 + side;
                injected[side as usize] +=
                    self.run(["first", "second"][side as usize], words[side as usize], seed);
            }
        }
        let each = |ns: u64| ns as f64 / f64::from(RUNS * REQUESTS);
        (each(injected[1]) - each(injected[0]), self.compare())
    }

    fn compare(&self) -> Value {
        let [first, second] = ["first", "second"].map(|side| labelled(side, &self.ground.path(side)));
        let words = ["compare", "--json", "--allow-unequal-work", "--warmup", "0"];
        let done = self.ground.command(&words).word(first).word(second).finish().expect(0);
        serde_json::from_str(&done.stdout).expect("the comparison is JSON")
    }
}

fn labelled(label: &str, path: &Path) -> String {
    format!("{label}={}", path.display())
}

fn repetitions() -> Option<u32> {
    variable("GUESTSCOPE_REPETITIONS").and_then(|text| text.to_str()?.parse().ok())
}

#[rstest]
#[case::quota(&["quota", "--size", "30ms"], "throttled")]
#[case::neighbour(&["spin-neighbour", "--size", "20ms"], "runq")]
#[case::lock(&["lock", "--size", "20ms"], "lock")]
#[case::peer(&["slow-peer", "--size", "20ms"], "net")]
#[case::disk(&["disk", "--size", "30ms"], "block_io")]
fn an_injected_cause_is_ranked_first_with_its_size(#[case] words: &[&str], #[case] cause: &str) {
    let test = "compared::an_injected_cause";
    let Some(workloads) = workloads(test, words[0]) else { return };
    let hit: Vec<&str> = words.iter().copied().chain(["--every", "12"]).collect();
    // The kind is prepared all the same: only its faults are lacking.
    let spared: Vec<&str> = words.iter().copied().chain(["--every", "1000000"]).collect();
    let (mut named, mut sized) = (0, 0);
    let experiments = repetitions().unwrap_or(ATTEMPTS);
    for seed in 1..=experiments {
        let Some(ground) = Ground::new(test) else { return };
        let experiment = Experiment { ground, workloads: workloads.clone() };
        let (injected_ns, json) = experiment.make([&spared, &hit], seed);
        let platform = &json["platforms"][0];
        let first = &platform["mean"]["causes"][0];
        let difference_ns = |cause: &str| {
            let causes = platform["mean"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
            let found = causes.iter().find(|known| known["cause"] == cause);
            found.and_then(|known| known["difference_ns"]["value"].as_f64()).unwrap_or(0.0)
        };
        // After each I/O it may have to wait for a CPU, which the injector's clocks do not tell apart.
        let then_ns = if words[0] == "disk" { difference_ns("runq") } else { 0.0 };
        let seen_ns = difference_ns(cause) + then_ns;
        let is_named = platform["overall"] == "slower" && first["cause"] == cause;
        let is_sized = is_named && (seen_ns / injected_ns - 1.0).abs() <= SHARE;
        (named, sized) = (named + u32::from(is_named), sized + u32::from(is_sized));
        if repetitions().is_none() {
            keep(format!(
                "compare: {:<28} {}, {} {:.3} ms of {:.3} ms injected per request",
                words.join(" "),
                platform["overall"].as_str().unwrap_or("?"),
                first["cause"].as_str().unwrap_or("?"),
                seen_ns / 1e6,
                injected_ns / 1e6
            ));
            if is_sized {
                return;
            }
            assert!(seed < experiments, "every time, the last: {}", platform["mean"]);
        }
    }
    keep(format!(
        "compare: {:<28} slower and {cause} first {named}, within 10 % {sized} of {experiments}",
        words.join(" ")
    ));
    assert!(sized * 20 >= experiments * 19, "{named} named and {sized} sized of {experiments}");
}

#[test]
fn a_platform_does_not_differ_from_itself() {
    let test = "compared::a_platform_does_not_differ";
    let Some(workloads) = workloads(test, "sleep") else { return };
    let spared = ["sleep", "--size", "1ms", "--every", "1000000"];
    let mut different = 0;
    let experiments = repetitions().unwrap_or(2);
    for seed in 1..=experiments {
        let Some(ground) = Ground::new(test) else { return };
        let experiment = Experiment { ground, workloads: workloads.clone() };
        let (_, json) = experiment.make([&spared, &spared], seed);
        let overall = json["platforms"][0]["overall"].as_str().unwrap_or("?").to_owned();
        different += u32::from(["slower", "faster", "mixed"].contains(&overall.as_str()));
    }
    keep(format!("compare: the same with itself     called different {different} of {experiments}"));
    // Chance does it once in 20 experiments: one of two in ten, both once in 400.
    let most = (experiments * 3 / 20).max(1);
    assert!(different <= most, "{different} of {experiments}");
}
