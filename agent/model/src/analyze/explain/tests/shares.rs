//! The order of causes goes by their shares, and what many requests show together counts.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;

#[test]
fn moves_to_another_cache_are_advised_on_where_only_cpu_time_grew() {
    let mut requests = run_with(Account::Cpu, 30_000_000);
    let advice_of = |requests: &[Request]| {
        let explanation = explain(requests, Wanted::Slowest(1));
        let advised =
            explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
        advised.iter().map(|one| (one.cause, one.naming)).collect::<Vec<_>>()
    };
    let mut with = |change: fn(&mut crate::phase::Counts)| {
        let late = requests.iter_mut().filter(|request| request.root().request % 10 == 4);
        late.flat_map(|one| &mut one.phases).for_each(|phase| change(&mut phase.counts));
        advice_of(&requests)
    };
    let cpu = ("cpu", Naming::Slowest);
    assert_eq!(with(|_| ()), [cpu]);
    // 30 moves inside the shared cache cost 1.5 ms at most, a twentieth of 30 ms; 29 cost less.
    assert_eq!(with(|counts| counts.migrate_llc = 29), [cpu]);
    let moves = |moves, at_most_ns| ("migration", Naming::Counts { moves, at_most_ns });
    assert_eq!(with(|counts| counts.migrate_llc = 31), [cpu, moves(31, 1_550_000)]);
    assert_eq!(with(|counts| (counts.migrate_llc, counts.migrate_node) = (0, 2)), [cpu, moves(2, 6_000_000)]);
}

/// The cause that dominates most of the slowest requests is not that of most of the time: the one that is
/// comes first everywhere.
#[test]
fn the_share_of_the_tail_decides_which_cause_comes_first() {
    let late = |number: u64| {
        let late = match number {
            4 | 14 => Some((Account::Lock, 90_000_000)),
            _ if number % 10 == 4 => Some((Account::Net, 9_000_000)),
            _ => None,
        };
        one(number, late)
    };
    let requests: Vec<Request> = (0..100).map(late).collect();
    let explanation = explain(&requests, Wanted::Slowest(10));
    let (group, explained) = (&explanation.summary.groups[0], &explanation.groups[0]);
    let Headline::Cause { cause, .. } = &group.headline else { panic!("{:?}", group.headline) };
    assert_eq!(*cause, Cause::Account(Account::Net), "8 of the 10 slowest");
    let Headline::Mixed { slowest, causes, without, .. } = explained.headline(group) else { panic!("no") };
    let [lock, net] = [Account::Lock, Account::Net].map(Cause::Account);
    assert_eq!((slowest, causes, without), (10, vec![(lock, 2), (net, 8)], 0));
    let advised = explained.advised(group, false, &explanation.circle);
    // 72 of 252 ms are enough for a cause that the headline names.
    assert_eq!(advised.iter().map(|one| one.cause).collect::<Vec<_>>(), ["lock", "net"]);
}

/// Three samples of a request may be chance, thirty of ten requests are none: what they have together counts,
/// in the tail, in the headline and in each of them.
#[rstest]
#[case::together([3; 10], Some(("cpu.spin", 0.75)))]
#[case::uneven([6, 0, 6, 0, 6, 0, 6, 0, 6, 0], Some(("cpu.spin", 0.75)))]
#[case::chance([1, 0, 0, 1, 0, 0, 1, 0, 0, 0], Some(("cpu", 1.0)))]
#[case::none([0; 10], Some(("cpu", 1.0)))]
fn samples_are_judged_over_all_slow_requests(
    #[case] samples: [u64; 10],
    #[case] expected: Option<(&str, f64)>,
) {
    let mut requests = run_with(Account::Cpu, 8_000_000);
    for (index, request) in requests.iter_mut().skip(4).step_by(10).enumerate() {
        for phase in &mut request.phases {
            phase.counts.sample_spin = samples[index];
        }
    }
    let explanation = explain(&requests, Wanted::Slowest(10));
    let (tail, first) = explanation.groups[0].leading().expect("there is a tail");
    assert_eq!(Some(first.cause.name()), expected.map(|one| one.0));
    assert!((first.share - expected.map_or(0.0, |one| one.1)).abs() < 0.15, "{first:?}");
    assert_eq!(tail.causes.iter().map(|one| one.excess_ns).sum::<i128>(), tail.excess_ns);
}

/// A phase that only slow requests have is told apart.
#[test]
fn a_phase_that_the_typical_request_lacks_is_known() {
    let late = |number: u64| {
        let mut steps = vec![Step::Nest("work", vec![Step::Spend(Account::Cpu, 1_000_000 + number)])];
        if number % 10 == 4 {
            steps.push(Step::Nest("retry", vec![Step::Spend(Account::Net, 9_000_000)]));
            steps.push(Step::Nest("work", vec![Step::Spend(Account::Net, 2_000_000)]));
        }
        Sample::new(number, number * 50_000_000, steps).build()
    };
    let requests: Vec<Request> = (0..100).map(late).collect();
    let explanation = explain(&requests, Wanted::Slowest(1));
    let phases = explanation.groups[0].cases[0].phases.iter();
    let known: Vec<_> = phases.map(|phase| (phase.path[0].stored().to_owned(), phase.is_usual)).collect();
    assert_eq!(known[..2], [("retry".to_owned(), false), ("work".to_owned(), true)]);
}
