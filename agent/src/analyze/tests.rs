//! What the analysis promises, over made-up and random requests.
//!
//! Yields no timings. Random requests nest phases, repeat names, wait in queues and are suspended.

use std::sync::Arc;

use guestscope_ebpf::Account;
use proptest::{collection::vec, prelude::*, sample::select};
use rstest::rstest;

use super::{
    samples::{Sample, Step, inference, process, renamed},
    split::Split,
    tally::request_split,
    tree::{Leaves, Tree, latency_ns},
    typical::exact_means,
    *,
};
use crate::phase::{Ending, Request};

fn summary_of(requests: &[Request]) -> Summary {
    Summary::new(|| requests.iter().cloned())
}

fn constant(number: u64, account: Account, extra_ns: u64) -> Request {
    let steps = vec![Step::Nest("inference", vec![Step::Spend(Account::Cpu, 1_000_000)])];
    let mut sample = Sample::new(number, number * 10_000_000, steps);
    if extra_ns > 0 {
        sample.steps.push(Step::Nest("wait", vec![Step::Spend(account, extra_ns)]));
    }
    sample.build()
}

/// 100 requests, of which the given ones wait longer.
fn run_with(slow: &[(u64, Account)]) -> Summary {
    let account_of = |number| slow.iter().find(|(slow, _)| *slow == number).map(|&(_, account)| account);
    let requests: Vec<Request> = (0..100)
        .map(|number| match account_of(number) {
            Some(account) => constant(number, account, 500_000 + number),
            None => constant(number, Account::Cpu, 0),
        })
        .collect();
    summary_of(&requests)
}

#[test]
fn a_cause_that_dominates_most_of_the_slowest_is_the_headline() {
    let slow: Vec<(u64, Account)> =
        (0..10).map(|index| (index * 9, if index < 7 { Account::Runq } else { Account::BlockIo })).collect();
    let summary = run_with(&slow);
    let Headline::Cause { cause, dominated, slowest, path, excess_ns, of_cause_ns, of_path_ns } =
        &summary.groups[0].headline
    else {
        panic!("no cause: {:?}", summary.groups[0].headline)
    };
    assert_eq!((*cause, *dominated, *slowest), (Cause::Account(Account::Runq), 7, 10));
    assert_eq!(path, &[Arc::from("wait")]);
    assert_eq!(excess_ns, of_cause_ns);
    assert_eq!(of_cause_ns, of_path_ns);
    assert_eq!(*excess_ns, 500_000 + 27);
}

#[test]
fn without_a_dominant_cause_the_headline_says_so() {
    let accounts = [Account::Runq, Account::BlockIo, Account::Lock, Account::Net, Account::Gpu];
    let slow: Vec<(u64, Account)> = (0..10).map(|index| (index * 9, accounts[index as usize % 5])).collect();
    let summary = run_with(&slow);
    let Headline::Mixed { slowest, causes, without, .. } = &summary.groups[0].headline else {
        panic!("not mixed: {:?}", summary.groups[0].headline)
    };
    assert_eq!((*slowest, *without), (10, 0));
    assert_eq!(causes.iter().map(|&(_, count)| count).collect::<Vec<_>>(), [2, 2, 2, 2, 2]);
}

#[test]
fn requests_that_are_hardly_slower_have_no_say() {
    let mut requests: Vec<Request> =
        (0..40).map(|number| constant(number, Account::Runq, number % 3)).collect();
    requests[17] = constant(17, Account::Throttled, 900_000);
    let Headline::Cause { cause, dominated, slowest, .. } = &summary_of(&requests).groups[0].headline else {
        panic!("the one slow request has a cause")
    };
    assert_eq!((*cause, *dominated, *slowest), (Cause::Account(Account::Throttled), 1, 1));
}

#[test]
fn half_of_the_slowest_is_not_most_of_them() {
    let slow: Vec<(u64, Account)> =
        (0..10).map(|index| (index * 9, if index < 5 { Account::Runq } else { Account::BlockIo })).collect();
    let Headline::Mixed { causes, .. } = &run_with(&slow).groups[0].headline else {
        panic!("one cause was chosen")
    };
    assert_eq!(causes, &[(Cause::Account(Account::Runq), 5), (Cause::Account(Account::BlockIo), 5)]);
}

#[rstest]
#[case::one(1, Headline::TooFew { requests: 1 })]
#[case::nineteen(19, Headline::TooFew { requests: 19 })]
#[case::all_alike(20, Headline::Alike { slowest: 3, excess_share: 0.0 })]
fn too_few_or_too_equal(#[case] requests: u64, #[case] expected: Headline) {
    let requests: Vec<Request> = (0..requests).map(|number| constant(number, Account::Cpu, 0)).collect();
    assert_eq!(summary_of(&requests).groups[0].headline, expected);
}

#[test]
fn an_empty_run_has_no_group() {
    let summary = summary_of(&[]);
    assert!(summary.groups.is_empty() && summary.processes.is_empty());
    assert_eq!(summary.left_out, LeftOut::default());
}

#[test]
fn what_would_distort_statistics_is_left_out_and_counted() {
    let mut requests = inference(30);
    requests.push(renamed(requests[0].clone(), crate::phase::WARMUP));
    let mut unfinished = requests[1].clone();
    unfinished.phases[0].ending = Ending::ThreadExited;
    let mut damaged = requests[2].clone();
    damaged.phases[0].duration_ns += 1;
    requests.extend([unfinished.clone(), damaged, Request { phases: Vec::new() }]);
    requests.push(process(99_999, "python", 812, &[(Account::Cpu, 5)]));
    let summary = summary_of(&requests);
    assert_eq!(summary.left_out, LeftOut { warmups: 1, unfinished: 1, damaged: 2 });
    assert_eq!((summary.requests(), summary.processes_seen), (30, 1));
    assert_eq!(summary.processes[0].split.get(Cause::Account(Account::Cpu)), 5);
    assert_eq!(summary.verdicts(&unfinished), vec![TailVerdict::default(); unfinished.phases.len()]);
}

#[test]
fn rows_stand_as_first_seen_with_nested_ones_below_their_parents() {
    let summary = summary_of(&inference(40));
    let rows: Vec<(String, usize, u64)> = summary.groups[0]
        .rows
        .iter()
        .map(|row| (row.path.join("/"), row.depth, row.duration.count))
        .collect();
    let expected = [
        ("preprocess", 0, 40),
        ("preprocess/decode", 1, 40),
        ("inference", 0, 40),
        ("postprocess", 0, 40),
        (OUTSIDE, 0, 40),
    ];
    assert_eq!(rows, expected.map(|(path, depth, count)| (path.to_owned(), depth, count)));
}

#[test]
fn names_without_end_cost_bounded_memory_and_lose_no_time() {
    let names: Vec<&'static str> = (0..200).map(|index| &*format!("step {index}").leak()).collect();
    let one = |number: usize| {
        let inner = Step::Nest("inner", vec![Step::Spend(Account::Cpu, 10)]);
        let steps = vec![Step::Nest(names[number % 200], vec![inner, Step::Spend(Account::Cpu, 90)])];
        Sample::new(number as u64, number as u64 * 1000, steps).build()
    };
    let requests: Vec<Request> = (0..400).map(one).collect();
    let group = &summary_of(&requests).groups[0];
    assert!(group.rows.len() <= 65, "{}", group.rows.len());
    let other =
        group.rows.iter().find(|row| row.kind == RowKind::Other).expect("there is no room for 200 names");
    assert_eq!(other.path, [Arc::from(OTHER_PHASES)]);
    let shares: f64 = group.rows.iter().filter(|row| row.depth == 0).map(|row| row.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

#[test]
fn kinds_of_requests_without_end_share_the_last_group() {
    let requests: Vec<Request> =
        (0..50).map(|number| renamed(constant(number, Account::Cpu, 0), &format!("r{number}"))).collect();
    let summary = summary_of(&requests);
    assert_eq!(summary.groups.len(), 9);
    assert_eq!(&*summary.groups[0].name, OTHER_REQUESTS);
    assert_eq!(summary.requests(), 50);
}

#[test]
fn a_phase_that_ran_on_another_thread_adds_nothing_to_its_request() {
    let steps = vec![
        Step::Nest("moved", vec![Step::Spend(Account::Cpu, 10)]),
        Step::Nest("stayed", vec![Step::Spend(Account::Cpu, 20)]),
        Step::Spend(Account::Lock, 70),
    ];
    let mut request = Sample::new(1, 0, steps).build();
    // On its other thread it spent more than its request has on any.
    request.phases[1].accounts.0[Account::Cpu as usize] = 500;
    request.phases[1].accounts.0[Account::Net as usize] = 40;
    request.phases[1].duration_ns = 540;
    let group = &summary_of(&[request]).groups[0];
    assert_eq!((group.overlapping, group.latency.max_ns, group.typical_ns), (1, 100, 100));
    assert_eq!(group.sums.total_ns(), 100);
    // Its own row keeps all of its time.
    assert_eq!(group.rows[0].sums.get(Cause::Account(Account::Cpu)), 500);
}

#[test]
fn live_is_silent_before_the_hundredth_request_and_then_names_the_cause() {
    let mut live = Live::new();
    for number in 0..WARM_REQUESTS - 1 {
        assert_eq!(live.observe(&constant(number, Account::Cpu, number % 10)), None);
    }
    let slow = live.observe(&constant(99, Account::Throttled, 900_000)).expect("the hundredth is judged");
    assert_eq!(slow.cause, Some(Cause::Account(Account::Throttled)));
    assert_eq!(slow.tail, Some(Band::P90), "99 requests say nothing about the 99th percentile");
    let usual = live.observe(&constant(100, Account::Cpu, 0)).expect("judged");
    assert_eq!(usual, TailVerdict::default());
    let progress = live.progress();
    assert_eq!((progress.requests, progress.warmups), (101, 0));
    assert!((progress.rate_per_s - 101e9 / (100.0 * 10_000_000.0 + 1_000_000.0)).abs() < 1e-6);
}

#[test]
fn live_and_final_agree_on_the_slow_ones_of_a_steady_run() {
    let requests = inference(2_000);
    let summary = summary_of(&requests);
    let mut live = Live::new();
    let mut agreed = 0;
    for (number, request) in requests.iter().enumerate() {
        let seen = live.observe(request);
        if number >= 200 && number % 20 == 13 {
            assert_eq!(seen.map(|verdict| verdict.cause), Some(summary.verdicts(request)[0].cause));
            assert_eq!(summary.verdicts(request)[0].cause, Some(Cause::Account(Account::Throttled)));
            agreed += 1;
        }
    }
    assert_eq!(agreed, 90);
}

fn steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    let spend =
        (select(Account::ALL.to_vec()), 0u64..50_000_000).prop_map(|(account, ns)| Step::Spend(account, ns));
    let suspend = (0u64..5_000_000).prop_map(Step::Suspend);
    if depth == 0 {
        return vec(prop_oneof![3 => spend, 1 => suspend], 0..4).boxed();
    }
    let nest =
        (select(vec!["a", "b", "c"]), steps(depth - 1)).prop_map(|(name, inner)| Step::Nest(name, inner));
    vec(prop_oneof![3 => spend, 1 => suspend, 3 => nest], 0..5).boxed()
}

prop_compose! {
    fn samples(most: usize)(
        list in vec((select(vec!["request", "other"]), 0u64..1_000, prop_oneof![Just(0u64), 1u64..9_000_000], steps(2)), 1..most)
    ) -> Vec<Request> {
        let mut start_ns = 10_000_000;
        list.into_iter().enumerate().map(|(number, (name, gap, queued_ns, steps))| {
            start_ns += gap;
            Sample { name, number: number as u64 + 1, start_ns, queued_ns, steps }.build()
        }).collect()
    }
}

/// Breaks every promise that a folder may break.
fn damage(requests: &mut [Request], noise: &[(usize, u64)]) {
    for (index, &(at, value)) in noise.iter().enumerate() {
        let count = requests.len();
        let request = &mut requests[at % count];
        let phases = request.phases.len();
        let phase = &mut request.phases[at / 7 % phases];
        match index % 6 {
            0 => phase.duration_ns = value,
            1 => phase.accounts.0[at % 11] = value,
            2 => phase.parent = Some(value % 1_000_000),
            3 => phase.start_ns = value,
            4 => phase.suspended_ns = value,
            _ => phase.id = value % 3,
        }
    }
}

/// Everything that a summary says, and nothing of how it got there.
fn said(summary: &Summary, requests: &[Request]) -> String {
    let mut by_id: Vec<(u64, Vec<TailVerdict>)> =
        requests.iter().map(|request| (request.root().id, summary.verdicts(request))).collect();
    by_id.sort_by_key(|(id, _)| *id);
    format!("{:?} {:?} {:?} {by_id:?}", summary.groups, summary.left_out, summary.processes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_a_request_add_up_to_its_latency(requests in samples(6)) {
        for request in &requests {
            let located = Tree::new(&request.root().name).learn(request);
            let leaves = Leaves::of(request, &located);
            let mut whole = Split::default();
            for (_, own) in &leaves.own {
                whole.add(own);
            }
            prop_assert_eq!(whole.total_ns(), u128::from(latency_ns(request)));
            prop_assert_eq!(whole, request_split(request));
            prop_assert_eq!(leaves.overlapping_ns, 0);
        }
    }

    #[test]
    fn the_excess_of_a_slow_request_is_the_sum_of_its_parts(requests in samples(40)) {
        let summary = summary_of(&requests);
        let mut seen = 0;
        for group in &summary.groups {
            seen += group.latency.count;
            prop_assert_eq!(group.sums.total_ns(), group.latency.sum_ns);
            for slow in &group.slowest {
                let parts: i64 = slow.parts.iter().map(|part| part.excess_ns).sum();
                prop_assert_eq!(parts, slow.excess_ns);
                prop_assert_eq!(group.typical_ns as i64 + slow.excess_ns, slow.latency_ns as i64);
            }
            prop_assert!(group.slowest.is_sorted_by_key(|slow| std::cmp::Reverse(slow.latency_ns)));
            let mut all: Vec<&Request> = requests.iter().filter(|one| one.root().name == group.name).collect();
            all.sort_by_key(|one| (std::cmp::Reverse(latency_ns(one)), one.root().start_ns, one.root().id));
            let slowest: Vec<u64> = all.iter().take(SLOWEST).map(|one| one.root().id).collect();
            prop_assert_eq!(group.slowest.iter().map(|slow| slow.id).collect::<Vec<_>>(), slowest);
            let shares: f64 = group.rows.iter().filter(|row| row.depth == 0).map(|row| row.share).sum();
            prop_assert!(group.latency.sum_ns == 0 || (shares - 1.0).abs() < 1e-9, "{}", shares);
            for row in &group.rows {
                prop_assert_eq!(row.sums.total_ns(), row.duration.sum_ns);
            }
        }
        prop_assert_eq!(seen, requests.len() as u64);
    }

    #[test]
    fn the_order_of_requests_does_not_matter(requests in samples(40), seed in any::<u64>()) {
        let mut shuffled = requests.clone();
        let mut state = seed | 1;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        prop_assert_eq!(said(&summary_of(&requests), &requests), said(&summary_of(&shuffled), &requests));
    }

    #[test]
    fn damaged_rows_are_survived_and_all_requests_are_accounted_for(
        mut requests in samples(12),
        noise in vec((any::<usize>(), prop_oneof![any::<u64>(), 0u64..100_000_000]), 0..40),
    ) {
        damage(&mut requests, &noise);
        let summary = summary_of(&requests);
        prop_assert_eq!(summary.requests() + summary.left_out.damaged, requests.len() as u64);
        let mut live = Live::new();
        for request in &requests {
            live.observe(request);
            prop_assert_eq!(summary.verdicts(request).len(), request.phases.len());
        }
        for group in &summary.groups {
            for slow in &group.slowest {
                prop_assert_eq!(slow.parts.iter().map(|part| part.excess_ns).sum::<i64>(), slow.excess_ns);
            }
        }
    }

    #[test]
    fn quantiles_lie_within_a_thousandth_of_the_exact_ones(mut values in vec(0u64..100_000_000_000, 1..1500)) {
        let mut durations = quantiles::Durations::default();
        for &value in &values {
            durations.record(value);
        }
        values.sort_unstable();
        let exact = |q: f64| values[(q * values.len() as f64).ceil().max(1.0) as usize - 1];
        let found = durations.quantiles();
        prop_assert_eq!((found.min_ns, found.max_ns), (values[0], values[values.len() - 1]));
        prop_assert_eq!(found.sum_ns, values.iter().map(|&value| u128::from(value)).sum::<u128>());
        let pairs = [(0.5, Some(found.p50_ns)), (0.9, found.p90_ns), (0.99, found.p99_ns), (0.999, found.p999_ns)];
        for ((q, quantile), needed) in pairs.into_iter().zip([1, 10, 100, 1000]) {
            prop_assert_eq!(quantile.is_some(), values.len() >= needed);
            if let Some(quantile) = quantile {
                prop_assert!(quantile.abs_diff(exact(q)) <= exact(q) / 1000 + 1, "{} {} {}", q, quantile, exact(q));
            }
        }
    }

    #[test]
    fn rounded_means_add_up(sums in vec(0u64..u64::MAX, 1..40), count in 1u64..1_000_000) {
        let sums: Vec<u128> = sums.into_iter().map(u128::from).collect();
        let means = exact_means(&sums, count);
        let whole: u128 = means.iter().map(|&mean| u128::from(mean)).sum();
        prop_assert_eq!(whole, sums.iter().sum::<u128>() / u128::from(count));
        for (mean, sum) in means.iter().zip(&sums) {
            prop_assert!((u128::from(*mean)).abs_diff(sum / u128::from(count)) <= 1);
        }
    }

    #[test]
    fn a_final_verdict_is_what_the_definition_says(requests in samples(60)) {
        let summary = summary_of(&requests);
        for request in &requests {
            let group = summary.groups.iter().find(|group| group.name == request.root().name).expect("has a group");
            let verdict = summary.verdicts(request)[0];
            let latency = latency_ns(request);
            prop_assert_eq!(verdict.tail.is_some(), latency > group.latency.p50_ns);
            let is_slow = group.latency.p90_ns.is_some_and(|p90| latency > p90);
            prop_assert_eq!(verdict.tail >= Some(Band::P90), is_slow);
            prop_assert_eq!(verdict.cause.is_some(), is_slow);
        }
    }
}
