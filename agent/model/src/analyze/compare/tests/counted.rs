//! Counts of platforms: what fidelities have in common, and moves between caches that bring advice.

use std::convert::Infallible;

use guestscope_contract::{
    Account,
    metrics::{FilledBy, Unit},
};
use rstest::rstest;

use super::*;
use crate::{
    analyze::{
        advice,
        samples::{Sample as Made, Step},
    },
    phase::{COUNTS, Counts, Metric as Counted, Request},
};

/// Five runs of 40 requests, each made for its run and number.
fn of_requests(label: &str, make: impl Fn(u64, u64) -> Request) -> Platform {
    let run = |run: u64| {
        let requests = (0..40).map(|number: u64| Ok::<_, Infallible>(make(run, number)));
        let digest = RunDigest::read(requests, 1_000, Warmup::Requests(0)).unwrap();
        Run { start_ns: run, is_emulated: false, requests: digest.groups.into_iter().next().unwrap() }
    };
    Platform { label: label.to_owned(), runs: (0..5).map(run).collect(), limits: Vec::new() }
}

/// A request that spends so much.
fn spending(run: u64, number: u64, times: impl IntoIterator<Item = (Account, u64)>) -> Request {
    let spend = |(account, ms)| Step::Spend(account, ms * 1_000_000 + run * 1_000 + number);
    Made::new(number, number * 1_000_000_000, times.into_iter().map(spend).collect()).build()
}

/// Requests, each `cpu_ms` long, with these counts.
fn platform(label: &str, cpu_ms: u64, counts: &Counts) -> Platform {
    of_requests(label, |run, number| {
        let mut request = spending(run, number, [(Account::Cpu, cpu_ms)]);
        request.phases[0].counts = *counts;
        request
    })
}

fn against(first: &Platform, second: Platform, fold: Option<Common>) -> Comparison {
    let declared =
        Declared { metrics: vec![(Metric::Mean, 0.02)], is_usual: false, allow_drift: false, fold };
    compare(first, &[second], &declared)
}

/// As the program is, whichever fidelity looks: 2 of each count.
fn all() -> Counts {
    Counts::from_array([2; COUNTS])
}

/// What is left of it where these are the only sources.
fn seen_by(sources: &[FilledBy]) -> Counts {
    let mut seen = all();
    for metric in Counted::ALL.into_iter().filter(|metric| !sources.contains(&metric.row().filled_by)) {
        *seen.get_mut(metric) = 0;
    }
    seen
}

/// Classic events.
fn tracepoint() -> Counts {
    seen_by(&[FilledBy::Switches, FilledBy::Scheduler])
}

/// getrusage.
fn procfs() -> Counts {
    seen_by(&[FilledBy::Switches, FilledBy::Faults])
}

/// Numbers of events that both have.
fn common(first: &Counts, second: &Counts) -> usize {
    let is_number = |metric: &Counted| {
        metric.row().unit == Unit::Events && first.get(*metric) > 0 && second.get(*metric) > 0
    };
    Counted::ALL.iter().filter(|metric| is_number(metric)).count()
}

/// A count that one side cannot see is no difference; one that both see stays.
#[rstest]
#[case::full_and_tracepoint(all(), tracepoint(), (true, false))]
#[case::tracepoint_and_procfs(tracepoint(), procfs(), (false, false))]
#[case::full_and_procfs(all(), procfs(), (false, true))]
fn what_one_side_does_not_see_is_no_difference(
    #[case] first: Counts,
    #[case] second: Counts,
    #[case] (scheduling, faults): (bool, bool),
) {
    let (fold, known) = (Some(Common { scheduling, faults }), common(&first, &second));
    assert!(known >= 2);
    for (first, second) in [(first, second), (second, first)] {
        let (first, second) = (platform("a", 50, &first), platform("b", 50, &second));
        let compared = against(&first, second, fold).platforms.remove(0);
        assert_eq!(compared.counts.len(), known, "{:?}", compared.counts);
        assert!(compared.counts.iter().all(|change| !change.is_sure()), "{:?}", compared.counts);
    }
}

fn moves(llc: u64, node: u64) -> Counts {
    Counts { migrate_llc: llc, migrate_node: node, ..Counts::default() }
}

/// Baseline, platform, and the counts on which advice to pin rests.
#[rstest]
#[case::more(moves(1, 0), moves(1, 4), 55, &[Counted::MigrateNode])]
#[case::more_of_both(moves(1, 1), moves(3, 4), 55, &[Counted::MigrateLlc, Counted::MigrateNode])]
#[case::the_slower_baseline_had_more(moves(1, 4), moves(1, 0), 45, &[Counted::MigrateNode])]
#[case::fewer(moves(1, 4), moves(1, 0), 55, &[])]
#[case::other_kinds(moves(8, 0), moves(0, 4), 55, &[])]
#[case::too_few_for_so_much(moves(0, 0), moves(4, 0), 55, &[])]
#[case::enough_for_so_little(moves(0, 0), moves(8, 0), 55, &[Counted::MigrateLlc])]
#[case::within_a_core(moves(0, 0), Counts { migrate_smt: 9, ..Counts::default() }, 55, &[])]
fn moves_to_cold_caches_bring_advice(
    #[case] baseline: Counts,
    #[case] counts: Counts,
    #[case] cpu_ms: u64,
    #[case] expected: &[Counted],
) {
    let comparison = against(&platform("a", 50, &baseline), platform("b", cpu_ms, &counts), None);
    let advised = comparison.platforms[0].advised(&comparison.baseline);
    assert_eq!((advised[0].cause, advised[0].counts.len()), ("cpu", 0));
    let names: Vec<Counted> =
        advised.iter().skip(1).flat_map(|one| &one.counts).map(|change| change.metric).collect();
    assert_eq!(names, expected);
    assert!(advised.iter().skip(1).all(|one| one.cause == "migration"), "{advised:?}");
}

/// The advice where requests of the second platform wait 15 ms in this account instead of 5, and something is
/// counted of them besides.
fn assert_advice(account: Account, count: impl Fn(&mut Counts), expected: &str) {
    let make = |label: &str, ms: u64, is_counted: bool| {
        of_requests(label, |run, number| {
            let mut request = spending(run, number, [(account, ms)]);
            if is_counted {
                count(&mut request.phases[0].counts);
            }
            request
        })
    };
    let comparison = against(&make("a", 5, false), make("b", 15, true), None);
    let advised = comparison.platforms[0].advised(&comparison.baseline);
    let advice: Vec<_> = advised.iter().map(|one| Some(one.advice.clone())).collect();
    assert_eq!(advice, [advice::for_cause(expected)]);
}

/// Reads that the thread asked for by io_uring are waited for in `poll`.
#[rstest]
#[case::of_devices(9, advice::IN_FLIGHT)]
#[case::of_somebody_else(0, "poll")]
#[case::mostly_of_somebody_else(3, "poll")]
fn advice_on_poll_depends_on_what_devices_had(#[case] device_ms: u64, #[case] expected: &str) {
    assert_advice(Account::Poll, |counts| counts.block_device_ns = device_ms * 1_000_000, expected);
}

/// A peer that takes longer is one thing, a longer way to it another.
#[rstest]
#[case::the_way(6, advice::ON_THE_WAY)]
#[case::the_peer(0, "net")]
#[case::mostly_the_peer(2, "net")]
fn advice_on_a_peer_depends_on_the_way_to_it(#[case] round_trip_ms: u64, #[case] expected: &str) {
    assert_advice(Account::Net, |counts| counts.net_round_trip_ns = round_trip_ms * 1_000_000, expected);
}

/// Each cause with a quarter of the difference gets its advice, by its share.
#[rstest]
#[case::one([20, 1, 1], &["lock"])]
#[case::two([6, 10, 1], &["block_io", "lock"])]
#[case::three([7, 6, 8], &["net", "lock", "block_io"])]
#[case::first_of_many([3, 2, 2], &["lock", "block_io", "net"])]
fn causes_are_advised_on_by_their_shares(#[case] more_ms: [u64; 3], #[case] expected: &[&str]) {
    let make = |label: &str, more_ms: [u64; 3]| {
        of_requests(label, |run, number| {
            let accounts = [Account::Lock, Account::BlockIo, Account::Net];
            spending(run, number, accounts.into_iter().zip(more_ms.map(|ms| 5 + ms)))
        })
    };
    let comparison = against(&make("a", [0; 3]), make("b", more_ms), None);
    let advised = comparison.platforms[0].advised(&comparison.baseline);
    assert_eq!(advised.iter().map(|one| one.cause).collect::<Vec<_>>(), expected);
}

#[test]
fn nothing_is_advised_where_a_guest_was_emulated() {
    let (first, mut second) = (platform("a", 50, &moves(0, 0)), platform("b", 60, &moves(0, 4)));
    second.runs[3].is_emulated = true;
    let comparison = against(&first, second.clone(), None);
    assert_eq!(comparison.platforms[0].side.emulated, 1);
    assert!(comparison.platforms[0].advised(&comparison.baseline).is_empty());
    let comparison = against(&second, first, None);
    assert!(comparison.platforms[0].advised(&comparison.baseline).is_empty());
}
