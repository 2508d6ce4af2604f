//! A limit is named where it was hit while requests lost time to it, and nowhere else.

use guestscope_contract::Account;
use rstest::rstest;

use super::super::{
    Cause, Overlay, Span, Summary, behind_others, explaining, limited,
    limited::explaining_all,
    samples::{Sample, Step, inference},
};
use crate::limits::{Kind, Limit, Timeline};

const MS: u64 = 1_000_000;

/// A limit that was hit by this much in each of these steps of 100 ms.
fn hit(kind: Kind, steps: std::ops::Range<u64>, amount: u64) -> Limit {
    let mut when = Timeline::starting(0, 100 * MS);
    steps.for_each(|step| when.add(step * 100 * MS, amount));
    let hits = when.amounts.iter().sum();
    Limit { kind, file: "f".to_owned(), group: "/a".to_owned(), hits, when, ..Limit::default() }
}

/// A limit of a graphics processor speaks of all requests by its part of the time, however many of them wait
/// at once.
#[rstest]
#[case::a_little(24, false)]
#[case::much(25, true)]
fn a_device_is_shared_by_all_requests(#[case] percent: u64, #[case] is_told: bool) {
    let shared = usual(percent, hit(Kind::GpuShared, 0..1, percent * MS));
    for waiting_ns in [1, u128::from(u64::MAX)] {
        let limits = [shared.clone()];
        let found = explaining_all(Cause::Account(Account::Gpu), waiting_ns, &limits);
        assert_eq!(found.len(), usize::from(is_told), "{found:?}");
    }
}

/// What hits some requests and spares as many others explains none of them.
#[test]
fn chance_explains_nothing() {
    let limit = usual(50, hit(Kind::GpuShared, 10..11, 100 * MS));
    let spared = Span { begin_ns: 1_100 * MS, end_ns: 1_150 * MS, ..SPAN };
    let limits = [limit];
    assert_eq!(explaining(Cause::Account(Account::Gpu), &[SPAN], &limits).len(), 1);
    assert_eq!(explaining(Cause::Account(Account::Gpu), &[SPAN, spared], &limits).len(), 0);
}

/// A limit that holds for this part of all time, percent.
fn usual(percent: u64, limit: Limit) -> Limit {
    Limit { hit_ns: percent, seen_ns: 100, ..limit }
}

/// A request of 50 ms within the eleventh step, 40 ms of it in question.
const SPAN: Span = Span { begin_ns: 1_000 * MS, end_ns: 1_050 * MS, ns: 40 * MS, held_ns: 0 };

/// Hits per step: 100 ms at an I/O limit are a whole step.
#[rstest]
#[case::memory(Cause::Overlay(Overlay::Fault), hit(Kind::Memory, 10..11, 1_000), true)]
#[case::read_by_calls(Cause::Overlay(Overlay::Syscall), hit(Kind::Memory, 10..11, 1_000), true)]
#[case::asleep_for_memory(Cause::Account(Account::Fault), hit(Kind::Memory, 10..11, 1_000), true)]
#[case::not_at_that_time(Cause::Overlay(Overlay::Fault), hit(Kind::Memory, 0..10, 1_000_000), false)]
#[case::not_often_enough(Cause::Overlay(Overlay::Fault), hit(Kind::Memory, 10..11, 20), false)]
#[case::not_hit(Cause::Overlay(Overlay::Fault), hit(Kind::Memory, 0..0, 0), false)]
#[case::not_of_memory(Cause::Account(Account::Lock), hit(Kind::Memory, 10..11, 1_000), false)]
#[case::device(Cause::Account(Account::BlockIo), hit(Kind::Io, 9..12, 100 * MS), true)]
#[case::helper_at_the_device(Cause::Helper(Account::BlockIo), hit(Kind::Io, 9..12, 100 * MS), true)]
#[case::pages_from_the_device(Cause::Account(Account::Fault), hit(Kind::Io, 9..12, 100 * MS), true)]
#[case::device_before(Cause::Account(Account::BlockIo), hit(Kind::Io, 0..9, 100 * MS), false)]
#[case::device_for_a_moment(Cause::Account(Account::BlockIo), hit(Kind::Io, 10..11, 10 * MS), false)]
#[case::shared(Cause::Account(Account::Gpu), hit(Kind::GpuShared, 9..12, 60 * MS), true)]
#[case::spun_for_it(Cause::InDriver, hit(Kind::GpuShared, 9..12, 60 * MS), true)]
#[case::held_down(Cause::InDriver, hit(Kind::GpuClock, 9..12, 60 * MS), true)]
#[case::shared_as_ever(Cause::Account(Account::Gpu), usual(60, hit(Kind::GpuShared, 9..12, 60 * MS)), false)]
#[case::shared_more(Cause::Account(Account::Gpu), usual(10, hit(Kind::GpuShared, 9..12, 60 * MS)), true)]
#[case::shared_before(Cause::Account(Account::Gpu), hit(Kind::GpuShared, 0..9, 60 * MS), false)]
#[case::not_of_the_device(Cause::Account(Account::Lock), hit(Kind::GpuShared, 9..12, 60 * MS), false)]
#[case::quota(Cause::Account(Account::Throttled), hit(Kind::Quota, 10..11, 1), true)]
#[case::quota_of_a_helper(Cause::Helper(Account::Throttled), hit(Kind::Quota, 10..11, 1), true)]
#[case::quota_before(Cause::Account(Account::Throttled), hit(Kind::Quota, 3..5, 1), false)]
#[case::cpus(Cause::Account(Account::Runq), hit(Kind::Cpus, 10..11, 90 * MS), true)]
#[case::cpus_of_a_helper(Cause::Helper(Account::Runq), hit(Kind::Cpus, 10..11, 90 * MS), true)]
#[case::no_cpu_was_idle(Cause::Account(Account::Runq), hit(Kind::Cpus, 10..11, 3 * MS), false)]
fn what_a_limit_explains(#[case] cause: Cause, #[case] limit: Limit, #[case] expected: bool) {
    let limits = [limit];
    let found = explaining(cause, &[SPAN], &limits);
    assert_eq!(found.len(), usize::from(expected));
    assert!(found.iter().all(|one| one.cause == cause && one.limit == &limits[0]));
}

/// The kernel said that a limit held I/Os back, in a burst too short for the group's mean rate to show it.
#[rstest]
#[case::most_of_it(40 * MS, 1, Cause::Account(Account::BlockIo), 1)]
#[case::a_little(MS, 1, Cause::Account(Account::BlockIo), 0)]
#[case::by_one_of_two(40 * MS, 2, Cause::Account(Account::BlockIo), 0)]
#[case::of_no_device(40 * MS, 1, Cause::Account(Account::Lock), 0)]
fn an_only_limit_held_back_what_was_held_back(
    #[case] held_ns: u64,
    #[case] limits: usize,
    #[case] cause: Cause,
    #[case] expected: usize,
) {
    let limits = vec![hit(Kind::Io, 0..0, 0); limits];
    assert_eq!(explaining(cause, &[Span { held_ns, ..SPAN }], &limits).len(), expected);
}

/// Pages that had been pushed out and are read again from a slow device: few attempts, much waiting.
#[test]
fn pages_that_come_back_are_waited_for() {
    let with = |refaults: u64| {
        let when_refaults = hit(Kind::Memory, 10..11, refaults).when;
        [Limit { when_refaults, ..hit(Kind::Memory, 10..11, 4) }]
    };
    let count = |cause: Cause, refaults: u64| explaining(cause, &[SPAN], &with(refaults)).len();
    let waits = [Account::Fault, Account::BlockIo].map(Cause::Account);
    assert_eq!(waits.map(|cause| count(cause, 500)), [1, 1]);
    assert_eq!(waits.map(|cause| count(cause, 3)), [0, 0]);
    assert_eq!(count(Cause::Overlay(Overlay::Fault), 500), 0, "that is time of waiting, not of the CPU");
}

#[test]
fn of_several_groups_the_one_that_was_hit_most_comes_first() {
    let parent = Limit { group: "/a".to_owned(), ..hit(Kind::Quota, 10..11, 7) };
    let child = Limit { group: "/a/b".to_owned(), ..hit(Kind::Quota, 10..11, 2) };
    let idle = Limit { group: "/".to_owned(), ..hit(Kind::Quota, 0..0, 0) };
    let limits = [child, idle, parent];
    let found = explaining(Cause::Account(Account::Throttled), &[SPAN], &limits);
    assert_eq!(found.iter().map(|one| one.limit.group.as_str()).collect::<Vec<_>>(), ["/a", "/a/b"]);
}

#[test]
fn the_limit_behind_the_headline_is_told() {
    let summary = Summary::new(|| inference(200).into_iter());
    let limits = |amount| [hit(Kind::Memory, 0..500, 100_000), hit(Kind::Quota, 0..500, amount)];
    let told = |limits: &[Limit]| {
        limited(&summary.groups[0], limits).iter().map(|one| one.limit.kind).collect::<Vec<_>>()
    };
    assert_eq!(told(&limits(1)), [Kind::Quota], "every 20th is throttled, and nothing is short of memory");
    assert_eq!(told(&limits(0)), []);
}

/// Every request waits as long for the same limit: none is slow, and that is where the time goes.
#[rstest]
#[case::all_the_time(100 * MS, &[Kind::Io])]
#[case::hardly_ever(MS, &[])]
fn a_limit_on_all_requests_is_told_though_none_stands_out(#[case] amount: u64, #[case] expected: &[Kind]) {
    let steps = || vec![Step::Spend(Account::Cpu, 30 * MS), Step::Spend(Account::BlockIo, 20 * MS)];
    let one = |number: u64| Sample::new(number, number * 60 * MS, steps()).build();
    let summary = Summary::new(|| (0..40).map(one));
    let limits = [hit(Kind::Io, 0..24, amount)];
    let told = limited(&summary.groups[0], &limits);
    assert_eq!(told.iter().map(|one| one.limit.kind).collect::<Vec<_>>(), expected);
}

/// The program waited 100 ms for a worker, which stood in a queue for 60 ms of it, or for 5.
#[rstest]
#[case::long_enough(60 * MS, 90 * MS, &[Kind::Cpus])]
#[case::little(5 * MS, 90 * MS, &[])]
#[case::no_other_cpu_was_idle(60 * MS, MS, &[])]
fn a_limit_on_a_thread_that_is_waited_for(#[case] kept: u64, #[case] amount: u64, #[case] expected: &[Kind]) {
    let span = Span { begin_ns: 1_000 * MS, end_ns: 1_100 * MS, ns: kept, held_ns: 0 };
    let spans = |account: Account| if account == Account::Runq { vec![span] } else { Vec::new() };
    let limits = [hit(Kind::Cpus, 10..11, amount)];
    let found = behind_others(spans, 100 * MS as i64, &limits);
    assert!(found.iter().all(|one| one.cause == Cause::Helper(Account::Runq)), "{found:?}");
    assert_eq!(found.iter().map(|one| one.limit.kind).collect::<Vec<_>>(), expected);
}
