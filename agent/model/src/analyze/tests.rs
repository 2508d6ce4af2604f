//! What the analysis promises, over made-up and random requests.
//!
//! Cases that were thought of stand here, random ones in [`properties`]. Yields no timings.

mod helpers;
mod limited;
mod peers;
mod properties;

use guestscope_contract::Account;
use rstest::rstest;

use super::{
    samples::{Sample, Step, inference, process, renamed},
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
    assert_eq!(path, &["wait"]);
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

/// Two of ten waited for long for a lock, the others for a bit for something else.
#[rstest]
#[case::three_quarters(3_000_000, &[Account::Runq, Account::Net], Some((Account::Lock, 2)))]
#[case::less(2_900_000, &[Account::Runq, Account::Net], None)]
#[case::others_alike(3_000_000, &[Account::Runq], Some((Account::Lock, 2)))]
#[case::less_than_many_alike(2_900_000, &[Account::Runq], Some((Account::Runq, 8)))]
fn a_cause_that_outweighs_all_others_is_the_headline(
    #[case] extra_ns: u64,
    #[case] others: &[Account],
    #[case] expected: Option<(Account, usize)>,
) {
    let slow = |number: u64| match number {
        0..2 => constant(number, Account::Lock, extra_ns),
        2..10 => constant(number, others[number as usize % others.len()], 250_000),
        _ => constant(number, Account::Cpu, 0),
    };
    let requests: Vec<Request> = (0..100).map(slow).collect();
    let found = if let Headline::Cause { cause: Cause::Account(account), dominated, slowest: 10, .. } =
        summary_of(&requests).groups[0].headline
    {
        Some((account, dominated))
    } else {
        None
    };
    assert_eq!(found, expected);
}

/// Ten of a hundred slow requests are looked at: two of them outweigh the other eight, but not the ninety.
#[test]
fn the_slowest_of_many_slow_requests_do_not_outweigh_the_others() {
    let slow = |number: u64| match number {
        0..2 => constant(number, Account::Lock, 3_000_000),
        2..100 => constant(number, Account::Runq, 250_000),
        _ => constant(number, Account::Cpu, 0),
    };
    let requests: Vec<Request> = (0..1000).map(slow).collect();
    let Headline::Cause { cause, dominated, .. } = summary_of(&requests).groups[0].headline else {
        panic!("eight of ten have one cause")
    };
    assert_eq!((cause, dominated), (Cause::Account(Account::Runq), 8));
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

/// Parts of every tenth request, us; the others have none of them.
#[rstest]
#[case::two_and_a_little([450, 400, 150, 0], &[("runq", 450_000), ("block_io", 400_000), ("lock", 150_000)])]
#[case::no_more_than_three(
    [350, 250, 210, 190],
    &[("runq", 350_000), ("block_io", 250_000), ("lock", 210_000)]
)]
#[case::much_of_one_and_crumbs([490, 140, 140, 140], &[("runq", 490_000)])]
fn causes_that_all_slow_requests_have_in_common_are_named_together(
    #[case] parts: [u64; 4],
    #[case] expected: &[(&str, i64)],
) {
    let accounts = [Account::Runq, Account::BlockIo, Account::Lock, Account::Net];
    let of = |number: u64| {
        let mut sample = Sample::new(number, number * 10_000_000, vec![Step::Spend(Account::Cpu, 1_000_000)]);
        let waits = accounts.into_iter().zip(parts).filter(|_| number % 10 == 4);
        sample.steps.extend(waits.map(|(account, us)| Step::Spend(account, us * 1_000)));
        // What no cause has enough of.
        let rest = 1_000 - parts.iter().sum::<u64>();
        let crumbs = [Account::Gpu, Account::Poll, Account::Sleep].map(|one| Step::Spend(one, rest * 333));
        sample.steps.extend(crumbs.into_iter().filter(|_| number % 10 == 4));
        sample.build()
    };
    let summary = summary_of(&(0..100).map(of).collect::<Vec<_>>());
    let Headline::Shared { slowest, parts, .. } = &summary.groups[0].headline else {
        panic!("{:?}", summary.groups[0].headline)
    };
    let parts: Vec<_> = parts.iter().map(|&(cause, ns)| (cause.name(), ns)).collect();
    assert_eq!((*slowest, parts.as_slice()), (10, expected));
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
        .map(|row| (crate::untrusted::join(&row.path, "/").to_string(), row.depth, row.duration.count))
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
    assert_eq!(other.path, [OTHER_PHASES]);
    let shares: f64 = group.rows.iter().filter(|row| row.depth == 0).map(|row| row.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

#[test]
fn all_kinds_together_have_bounded_room_too() {
    let names: Vec<&'static str> = (0..400).map(|index| &*format!("step {index}").leak()).collect();
    let roots = ["a", "b", "c", "d", "e", "f"];
    let one = |number: usize| {
        let steps = vec![Step::Nest(names[number % 400], vec![Step::Spend(Account::Cpu, 90)])];
        renamed(Sample::new(number as u64, number as u64 * 1000, steps).build(), roots[number % 6])
    };
    let requests: Vec<Request> = (0..2400).map(one).collect();
    let summary = summary_of(&requests);
    let rows: usize = summary.groups.iter().map(|group| group.rows.len()).sum();
    assert_eq!(summary.requests(), 2400);
    assert!(rows <= 160 + 2 * 6, "{rows}");
}

#[test]
fn kinds_of_requests_without_end_share_the_last_group() {
    let requests: Vec<Request> =
        (0..50).map(|number| renamed(constant(number, Account::Cpu, 0), &format!("r{number}"))).collect();
    let summary = summary_of(&requests);
    assert_eq!(summary.groups.len(), 33);
    assert_eq!(summary.groups[0].name.stored(), OTHER_REQUESTS);
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
    request.phases[1].duration_ns = 540_000;
    request.phases[1].accounts.0[Account::Sleep as usize] = 539_460;
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
