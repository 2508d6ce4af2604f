//! Decompositions of requests whose parts are known: exact sums, the right causes, nothing lost on the way.

use std::convert::Infallible;

use guestscope_contract::Account;
use proptest::prelude::*;

use super::*;
use crate::{
    analyze::{
        Cause, Overlay,
        samples::{Sample as Made, Step},
    },
    phase::Request,
};

/// What happens in each request of one platform, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    cpu: u64,
    runq: u64,
    /// In every tenth request.
    throttled: u64,
}

fn requests(kind: Kind, run: u64, count: u64) -> Vec<Request> {
    const MS: u64 = 1_000_000;
    (0..count)
        .map(|number| {
            // Something that differs between runs, and between requests.
            let jitter = (number * 7_919 + run * 104_729) % 997 * 100;
            let mut inference = vec![Step::Spend(Account::Cpu, kind.cpu * MS + jitter)];
            if kind.runq > 0 {
                inference.push(Step::Spend(Account::Runq, kind.runq * MS));
            }
            if kind.throttled > 0 && number % 10 == 3 {
                inference.push(Step::Spend(Account::Throttled, kind.throttled * MS));
            }
            let steps = vec![
                Step::Nest("preprocess", vec![Step::Spend(Account::Cpu, 3 * MS)]),
                Step::Nest("inference", inference),
                Step::Spend(Account::Cpu, 20_000),
            ];
            Made::new(number, number * 1_000 * MS, steps).build()
        })
        .collect()
}

fn digest(requests: Vec<Request>, warmup: Warmup) -> RunDigest {
    let rows = requests.iter().map(|request| request.phases.len() as u64).sum();
    RunDigest::read(requests.into_iter().map(Ok::<_, Infallible>), rows, warmup).unwrap()
}

fn platform(label: &str, runs: u64, make: impl Fn(u64) -> Vec<Request>) -> Platform {
    let run = |run: u64| {
        let digest = digest(make(run), Warmup::Requests(0));
        Run { start_ns: run, is_emulated: false, requests: digest.groups.into_iter().next().unwrap() }
    };
    Platform { label: label.to_owned(), runs: (0..runs).map(run).collect(), limits: Vec::new() }
}

fn against(first: &Platform, second: Platform) -> Compared {
    let metrics = vec![(Metric::Mean, 0.02), (Metric::P50, 0.02)];
    let declared = Declared { metrics, is_usual: false, allow_drift: false, fold: None };
    compare(first, &[second], &declared).platforms.remove(0)
}

#[test]
fn names_the_cause_its_phase_and_its_size_in_mean_and_tail() {
    let clean = platform("clean", 6, |run| requests(Kind { cpu: 50, ..Kind::default() }, run, 100));
    let slow = platform("slow", 6, |run| requests(Kind { cpu: 50, runq: 2, throttled: 40 }, run, 100));
    let compared = against(&clean, slow);
    assert_eq!(compared.overall, Overall::Slower);
    near(compared.mean.difference_ns.value, 6_000_000.0);
    near(compared.mean.residual_ns, 0.0);
    let [first, second] = [&compared.mean.parts[0], &compared.mean.parts[1]];
    assert_eq!(first.cause, Cause::Account(Account::Throttled));
    assert_eq!(first.path, ["inference"]);
    near(first.difference_ns.value, 4_000_000.0);
    assert_eq!(second.cause, Cause::Account(Account::Runq));
    near(second.difference_ns.value, 2_000_000.0);
    // Each of the slowest tenth was throttled: 40 ms instead of none.
    let tail = compared.tail.unwrap();
    near(tail.quantile, 0.9);
    near(tail.decomposition.causes[0].difference_ns.value, 40_000_000.0);
    near(tail.decomposition.residual_ns, 0.0);
}

#[test]
fn what_a_faster_platform_lacks_is_named_as_well() {
    let slow = platform("slow", 6, |run| requests(Kind { cpu: 50, runq: 5, throttled: 0 }, run, 60));
    let clean = platform("clean", 6, |run| requests(Kind { cpu: 50, ..Kind::default() }, run, 60));
    let compared = against(&slow, clean);
    assert_eq!(compared.overall, Overall::Faster);
    let first = compared.mean.first().unwrap();
    assert_eq!(first.cause, Cause::Account(Account::Runq));
    near(first.difference_ns.value, -5_000_000.0);
    near(first.baseline_ns, 5_000_000.0);
}

/// Page faults by samples: 10 of 55 ms on the CPU, and the number of faults tells that each got dearer.
#[test]
fn time_on_a_cpu_is_split_by_samples() {
    let with_faults = |cpu_ms: u64, share: f64| {
        move |run: u64| {
            let mut requests = requests(Kind { cpu: cpu_ms, ..Kind::default() }, run, 60);
            for request in &mut requests {
                let samples = cpu_ms + 3;
                let fault = (samples as f64 * share).round() as u64;
                let phases = request.phases.len();
                for index in [0, phases - 1] {
                    let counts = &mut request.phases[index].counts;
                    (counts.sample_fault, counts.sample_user) = (fault, samples - fault);
                    counts.fault_minor = 5_000;
                }
            }
            requests
        }
    };
    let clean = platform("clean", 5, with_faults(45, 0.0));
    let slow = platform("slow", 5, with_faults(55, 10.0 / 58.0));
    let compared = against(&clean, slow);
    let first = compared.mean.first().unwrap();
    assert_eq!(first.cause, Cause::Overlay(Overlay::Fault));
    assert!((first.difference_ns.value / 9.5e6 - 1.0).abs() < 0.05, "{first:?}");
    let cost = compared.costs.iter().find(|cost| cost.cause == first.cause).unwrap();
    near(cost.count, 5_000.0);
    near(cost.by_number_ns, 0.0);
    near(cost.by_price_ns, first.difference_ns.value);
}

/// A guest that is stopped takes no samples: those around a stop must not say what it was.
#[test]
fn a_stop_is_none_of_what_samples_say() {
    const STOP_MS: u64 = 300;
    let make = |stops: bool| {
        move |run: u64| -> Vec<Request> {
            let [usual, stopped] =
                [0, STOP_MS].map(|ms| requests(Kind { cpu: 50 + ms, ..Kind::default() }, run, 100));
            let each = usual.into_iter().zip(stopped).enumerate().map(|(number, (usual, stopped))| {
                let is_stopped = stops && number % 10 == 3;
                let mut request = if is_stopped { stopped } else { usual };
                let last = request.phases.len() - 1;
                for index in [0, last] {
                    let phase = &mut request.phases[index];
                    (phase.counts.sample_user, phase.counts.sample_fault) = (30, 20);
                    phase.pause_ns = if is_stopped { STOP_MS * 1_000_000 } else { 0 };
                }
                request
            });
            each.collect()
        }
    };
    let (clean, stopped) = (platform("clean", 6, make(false)), platform("stopped", 6, make(true)));
    for (compared, sign) in [(against(&clean, stopped.clone()), 1.0), (against(&stopped, clean), -1.0)] {
        let tail = &compared.tail.as_ref().unwrap().decomposition;
        for decomposition in [&compared.mean, tail] {
            let all_ns = decomposition.difference_ns.value;
            assert!(all_ns * sign > 0.99 * STOP_MS as f64 * 1e5, "{all_ns}");
            assert_eq!(decomposition.first().unwrap().cause, Cause::Pause);
            for of in &decomposition.causes {
                let expected_ns = if of.cause == Cause::Pause { all_ns } else { 0.0 };
                // Requests differ by up to 0.1 ms without any stop.
                assert!((of.difference_ns.value - expected_ns).abs() < 1e5, "{of:?} of {all_ns}");
            }
            let fault = decomposition.cause(Cause::Overlay(Overlay::Fault)).unwrap();
            // Two fifths of 50 ms, and nothing of the stops.
            assert!((fault.baseline_ns - 20e6).abs() < 2e5, "{fault:?}");
        }
    }
}

/// A program's own phase may be called as the time before a request is.
#[test]
fn two_phases_of_one_name_are_one_part() {
    let make = |ms: u64| {
        move |run: u64| -> Vec<Request> {
            let one = |number: u64| {
                let steps = vec![Step::Nest("queue", vec![Step::Spend(Account::Lock, ms * 1_000_000 + run)])];
                Made { queued_ns: 7_000_000, ..Made::new(number, (number + 1) * 1_000_000_000, steps) }
                    .build()
            };
            (0..40).map(one).collect()
        }
    };
    let compared = against(&platform("a", 5, make(10)), platform("b", 5, make(15)));
    near(compared.mean.residual_ns, 0.0);
    let first = &compared.mean.parts[0];
    assert_eq!((first.cause, first.path[0].stored()), (Cause::Account(Account::Lock), "queue"));
    near(first.difference_ns.value, 5_000_000.0);
}

/// A request that spins for a worker without a CPU is not slow for its own sake.
#[test]
fn spinning_for_a_helper_is_named_after_the_helper() {
    let make = |kept_ms: u64| {
        move |run: u64| -> Vec<Request> {
            let one = |number: u64| {
                let steps = vec![
                    Step::Spend(Account::Cpu, (50 + kept_ms) * 1_000_000 + run * 1_000 + number),
                    Step::Kept(0, kept_ms * 1_000_000),
                ];
                Made::new(number, number * 1_000_000_000, steps).build()
            };
            (0..40).map(one).collect()
        }
    };
    let compared = against(&platform("a", 5, make(0)), platform("b", 5, make(8)));
    let first = compared.mean.first().unwrap();
    assert_eq!(first.cause, Cause::Helper(Account::Runq));
    assert!((first.difference_ns.value / 8e6 - 1.0).abs() < 1e-3, "{first:?}");
}

#[test]
fn fidelities_fold_to_what_both_know() {
    let kind = Kind { cpu: 50, runq: 1, throttled: 40 };
    let (first, second) = (
        platform("a", 5, |run| requests(Kind { cpu: 50, ..Kind::default() }, run, 40)),
        platform("b", 5, |run| requests(kind, run, 40)),
    );
    let common = Common { scheduling: false, faults: true };
    let declared = Declared {
        metrics: vec![(Metric::Mean, 0.02)],
        is_usual: false,
        allow_drift: false,
        fold: Some(common),
    };
    let compared = compare(&first, &[second], &declared).platforms.remove(0);
    assert!(compared.mean.cause(Cause::Account(Account::Throttled)).is_none());
    near(compared.mean.cause(Cause::Account(Account::Runq)).unwrap().difference_ns.value, 5_000_000.0);
    near(compared.mean.residual_ns, 0.0);
}

#[test]
fn a_warm_up_is_as_if_it_had_never_been() {
    let all = requests(Kind { cpu: 50, runq: 1, throttled: 40 }, 3, 200);
    let mut cold = all.clone();
    cold.splice(0..0, requests(Kind { cpu: 500, runq: 9, throttled: 0 }, 4, 20));
    let (warm, forgotten) = (digest(all, Warmup::Requests(0)), digest(cold, Warmup::Requests(20)));
    let (mut warm, mut forgotten) = (warm.groups[0].clone(), forgotten.groups[0].clone());
    assert_eq!((warm.warmup, forgotten.warmup), (0, 20));
    (warm.warmup, forgotten.warmup) = (0, 0);
    // Start times were made by number, and overlap in this fixture.
    (warm.throughput_per_s, forgotten.throughput_per_s) = (0.0, 0.0);
    assert_eq!(warm, forgotten);
}

#[test]
fn usually_2_of_100_are_warm_up_unless_the_program_marked_some() {
    let plain = requests(Kind { cpu: 5, ..Kind::default() }, 0, 100);
    assert_eq!(digest(plain.clone(), Warmup::Usual).groups[0].warmup, 2);
    let mut marked = plain;
    marked.push(crate::analyze::samples::renamed(marked[0].clone(), crate::phase::WARMUP));
    assert_eq!(digest(marked, Warmup::Usual).groups[0].warmup, 0);
    assert_eq!(group(vec![5; 49]).warmup, 0);
}

#[test]
fn drift_is_seen_and_withholds_the_verdict() {
    let drifting = |run: u64| -> Vec<Request> {
        let one = |number: u64| {
            let steps = vec![Step::Spend(Account::Cpu, 50_000_000 + number * 100_000 + run * 1_000)];
            Made::new(number, number * 1_000_000_000, steps).build()
        };
        (0..90).map(one).collect()
    };
    let clean = platform("a", 6, |run| requests(Kind { cpu: 50, ..Kind::default() }, run, 90));
    let declared = |allow_drift| Declared {
        metrics: vec![(Metric::Mean, 0.02)],
        is_usual: false,
        allow_drift,
        fold: None,
    };
    let second = platform("b", 6, drifting);
    let compared = compare(&clean, std::slice::from_ref(&second), &declared(false)).platforms.remove(0);
    assert!(compared.side.drifts && compared.side.drift.unwrap() > 0.1);
    assert_eq!(compared.overall, Overall::Drift);
    assert_eq!(compare(&clean, &[second], &declared(true)).platforms[0].overall, Overall::Slower);
}

/// A tail that is not a whole number of requests: the slowest 10 % of 105 are ten and a half.
#[test]
fn tails_weigh_the_last_request_in_part() {
    let digest = group((1..=105).map(|ms| ms * 1_000_000).collect());
    let tail = &digest.tails[0];
    let expected = ((96..=105).sum::<u64>() as f64 + 95.0 * 0.5) / 10.5 * 1e6;
    near(tail.mean_ns, expected);
    near(tail.profile.phases[0].1.accounts[0], expected);
}

/// What speaks against a difference most comes last, and is shown before the small ones that explain it.
#[test]
fn large_parts_are_shown_on_either_side() {
    let part = |name: &str, ns: f64| Part {
        path: vec![name.into()],
        cause: Cause::Account(Account::Cpu),
        baseline_ns: 0.0,
        difference_ns: Interval::from(ns),
    };
    let parts = [("a", 120.0), ("b", 9.0), ("c", 8.0), ("d", 7.0), ("e", 0.4), ("f", -6.0), ("g", -38.4)];
    let whole = Decomposition {
        difference_ns: Interval::from(100.0),
        parts: parts.map(|(name, ns)| part(name, ns)).to_vec(),
        ..Decomposition::default()
    };
    let shown = |least, most| -> String {
        whole.largest(least, most).iter().map(|part| part.path[0].stored()).collect()
    };
    assert_eq!(
        ["abcdfg", "abcg", "ag", "a", ""],
        [shown(0.01, 8), shown(0.01, 4), shown(0.01, 2), shown(0.5, 2), shown(2.0, 8)]
            .each_ref()
            .map(String::as_str)
    );
    assert_eq!(shown(0.01, 0), "");
}

proptest! {
    /// Whatever the requests, parts add up to the difference of the means, and of the tails.
    #[test]
    fn parts_add_up(
        first in proptest::collection::vec((1..90_u64, 0..30_u64, 0..50_u64), 1..4),
        second in proptest::collection::vec((1..90_u64, 0..30_u64, 0..50_u64), 1..4),
        (stopped_ns, stolen_ns, samples) in (0..60_000_000_u64, 0..60_000_000_u64, (0..90_u64, 0..90_u64)),
    ) {
        let make = |kinds: Vec<(u64, u64, u64)>| {
            move |run: u64| {
                let (cpu, runq, throttled) = kinds[run as usize];
                requests(Kind { cpu, runq, throttled }, run, 110)
            }
        };
        let (runs, other_runs) = (first.len() as u64, second.len() as u64);
        let beside = |run: u64| {
            let mut requests = make(second.clone())(run);
            for phase in requests.iter_mut().flat_map(|request| &mut request.phases) {
                (phase.counts.sample_user, phase.counts.sample_fault) = samples;
                (phase.pause_ns, phase.counts.steal_ns) = (stopped_ns, stolen_ns);
            }
            requests
        };
        let compared = against(&platform("a", runs, make(first)), platform("b", other_runs, beside));
        let tail = compared.tail.unwrap().decomposition;
        for decomposition in [compared.mean, tail] {
            let sum: f64 = decomposition.parts.iter().map(|part| part.difference_ns.value).sum();
            let by_cause: f64 = decomposition.causes.iter().map(|of| of.difference_ns.value).sum();
            let total = decomposition.value_ns - decomposition.baseline_ns;
            prop_assert!((sum - total).abs() < 1.0 && (by_cause - total).abs() < 1.0);
            prop_assert!(decomposition.residual_ns.abs() < 1.0);
        }
    }
}
